// Tokens of Markdown as elements. Nothing here parses HTML: what is no known token is text.
import type { Token, Tokens } from 'marked';
import type { ComponentChildren, JSX } from 'preact';
import { memo } from 'preact/compat';
import { useMemo, useRef } from 'preact/hooks';
import { type Block, BlockStream } from '../text/blocks';
import { type MathToken, safeAddress, unescapeEntities } from '../text/markdown';
import { CodeBlock } from './code';
import { Formula } from './math';

// Browsers break lines between a formula and the comma behind it: what is to stay with tokens[at].
// Long formulas must be free to break inside.
const longestKept = 32;
function tail(tokens: Token[], at: number): string {
  const [formula, next] = [tokens[at], tokens[at + 1]];
  if (formula?.type !== 'math' || formula.raw.length > longestKept || next?.type !== 'text' || (next as Tokens.Text).tokens) return '';
  return /^[.,:;!?)\]]+/.exec((next as Tokens.Text).text)?.[0] ?? '';
}

function children(tokens: Token[] | undefined, fallback = ''): ComponentChildren {
  if (!tokens) return unescapeEntities(fallback);
  return tokens.map((token, i) => {
    const drawn = tail(tokens, i - 1).length;
    if (drawn > 0) return unescapeEntities((token as Tokens.Text).text.slice(drawn));
    const piece = <Piece key={i} token={token} />;
    const after = tail(tokens, i);
    return after ? <span key={i} class="glued">{piece}{after}</span> : piece;
  });
}

function Link({ href, title, inside }: { href: string; title?: string | null; inside: ComponentChildren }) {
  const address = safeAddress(href);
  if (!address) return <span title={href}>{inside}</span>;
  return (
    <a href={address} title={title || address} target="_blank" rel="noopener noreferrer nofollow">
      {inside}
    </a>
  );
}

function List({ list }: { list: Tokens.List }) {
  const items = list.items.map((item, i) => (
    <li key={i} class={item.task ? 'task' : undefined}>
      {item.task && <input type="checkbox" checked={item.checked} disabled aria-label={item.checked ? 'done' : 'to do'} />}
      {children(item.tokens)}
    </li>
  ));
  return list.ordered ? <ol start={list.start === '' ? undefined : list.start}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ table }: { table: Tokens.Table }) {
  const side = (i: number) => (table.align[i] ? `to-${table.align[i]}` : undefined);
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>{table.header.map((cell, i) => <th key={i} class={side(i)}>{children(cell.tokens)}</th>)}</tr>
        </thead>
        <tbody>
          {table.rows.map((row, r) => (
            <tr key={r}>{row.map((cell, i) => <td key={i} class={side(i)}>{children(cell.tokens)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Piece({ token }: { token: Token }): JSX.Element | null {
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'math': {
      const math = token as unknown as MathToken;
      return <Formula tex={math.tex} display={math.display} />;
    }
    case 'code':
      return <CodeBlock code={token.text} language={/^[\w+#.-]*/.exec(token.lang ?? '')?.[0] ?? ''} />;
    case 'heading': {
      const Tag = `h${Math.min(6, token.depth + 1)}` as 'h2';
      return <Tag class={`h${token.depth}`}>{children(token.tokens)}</Tag>;
    }
    case 'hr':
      return <hr />;
    case 'blockquote':
      return <blockquote>{children(token.tokens)}</blockquote>;
    case 'list':
      return <List list={token as Tokens.List} />;
    case 'table':
      return <Table table={token as Tokens.Table} />;
    case 'paragraph':
      return <p>{children(token.tokens)}</p>;
    case 'strong':
      return <strong>{children(token.tokens)}</strong>;
    case 'em':
      return <em>{children(token.tokens)}</em>;
    case 'del':
      return <del>{children(token.tokens)}</del>;
    case 'codespan':
      return <code>{token.text}</code>;
    case 'br':
      return <br />;
    case 'link':
      return <Link href={token.href} title={token.title} inside={children(token.tokens, token.text)} />;
    case 'image': // never loaded: an answer must not make the browser speak to anyone
      return <Link href={token.href} title={token.title} inside={`[image: ${token.text || token.href}]`} />;
    case 'text':
      return <>{children((token as Tokens.Text).tokens, token.text)}</>;
    case 'escape':
      return <>{token.text}</>;
    default:
      return <>{token.raw}</>;
  }
}

const BlockView = memo(
  ({ block }: { block: Block }) => <>{children(block.tokens)}</>,
  (a: { block: Block }, b: { block: Block }) => a.block === b.block,
);

export function Markdown({ text, complete }: { text: string; complete: boolean }) {
  const stream = useRef<BlockStream>();
  stream.current ??= new BlockStream();
  const blocks = useMemo(() => (stream.current as BlockStream).update(text, complete), [text, complete]);
  return (
    <div class="prose">
      {blocks.map((block) => (
        <BlockView key={block.key} block={block} />
      ))}
    </div>
  );
}
