import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Token } from 'marked';
import { BlockStream } from '../../src/text/blocks';
import { lex, safeAddress, unescapeEntities } from '../../src/text/markdown';

interface Found {
  tex: string;
  display: boolean;
}

function formulas(text: string): Found[] {
  const found: Found[] = [];
  const walk = (tokens: Token[]) => {
    for (const token of tokens) {
      if (token.type === 'math') found.push({ tex: (token as unknown as Found).tex, display: (token as unknown as Found).display });
      if ('tokens' in token && token.tokens) walk(token.tokens);
      if ('items' in token && Array.isArray(token.items)) walk(token.items as Token[]);
    }
  };
  walk(lex(text));
  return found;
}
const inline = (tex: string) => ({ tex, display: false });
const display = (tex: string) => ({ tex, display: true });

test('the four ways to write a formula', () => {
  assert.deepEqual(formulas('So $a_1*b_2*c$ and \\(x^2\\), then \\[\\boxed{42}\\] and $$y$$.'), [
    inline('a_1*b_2*c'),
    inline('x^2'),
    display('\\boxed{42}'),
    display('y'),
  ]);
});

test('a formula over lines that would be lists or headings', () => {
  assert.deepEqual(formulas('We get\n\\[\na\n+ b\n- c\n=\nd\n\\]\nand\n\n$$\nx\n=== y\n$$\n'), [
    display('a\n+ b\n- c\n=\nd'),
    display('x\n=== y'),
  ]);
});

test('formulas in lists and emphasis', () => {
  assert.deepEqual(formulas('1. first $x$\n2. **bold \\(y\\)**\n\n   \\[z\\]\n'), [inline('x'), inline('y'), display('z')]);
});

test('money, code and lone dollars are no formulas', () => {
  for (const text of ['It costs $5 and $10.', 'from $5 to $6', '`$a$`', '```\n$a$\n\\[x\\]\n```', 'a $ b $ c', '\\$a\\$', 'one $ alone', '$a\n\nb$']) {
    assert.deepEqual(formulas(text), [], text);
  }
});

test('tags are text, never HTML', () => {
  const types = new Set<string>();
  const walk = (tokens: Token[]) => {
    for (const token of tokens) {
      types.add(token.type);
      if ('tokens' in token && token.tokens) walk(token.tokens);
    }
  };
  walk(lex('<script>alert(1)</script>\n\n<div onclick="x">a <b>c</b></div>\n\n<!-- no -->\n\n<img src=x onerror=alert(1)>'));
  assert.equal(types.has('html'), false, [...types].join(' '));
});

test('addresses that a click may follow', () => {
  assert.equal(safeAddress('https://example.org/a?b#c'), 'https://example.org/a?b#c');
  assert.equal(safeAddress('mailto:a@b.c'), 'mailto:a@b.c');
  for (const bad of ['javascript:alert(1)', ' java\nscript:alert(1)', 'data:text/html,x', 'vbscript:x', '//host/x', '/path', '#x', 'https:x']) {
    assert.equal(safeAddress(bad), undefined, bad);
  }
});

test('character references', () => {
  assert.equal(unescapeEntities('a &lt;b&gt; &amp;amp; &#65;&#x42; &unknown; &'), 'a <b> &amp; AB &unknown; &');
  assert.equal(unescapeEntities('&#0;&#xd800;&#1114112;'), '\ufffd\ufffd\ufffd');
});

const long = [
  '# Title', 'A paragraph with $x$ and\na second line.', '- one\n- two\n\n  more of two\n- three', '```py\ndef f():\n\n    return 1\n```',
  '| a | b |\n|---|---|\n| 1 | 2 |', '> quoted\n> on', '\\[\na\n+ b\n\\]', '1. x\n2. y\n\n   ```\n   z\n   ```', 'End.',
].join('\n\n');

test('a text that grows by any steps ends as the whole', () => {
  const whole = new BlockStream().update(long, true);
  assert.equal(whole.map((block) => block.raw).join(''), long);
  for (const step of [1, 2, 3, 7, 40]) {
    const stream = new BlockStream();
    for (let end = step; end < long.length; end += step) {
      const blocks = stream.update(long.slice(0, end), false);
      // The last block may stand for a half line in its own way.
      assert.ok(long.startsWith(blocks.slice(0, -1).map((block) => block.raw).join('')), `up to ${end}`);
      assert.equal(new Set(blocks.map((block) => block.key)).size, blocks.length, 'keys differ');
    }
    const all = stream.update(long, false);
    assert.deepEqual(all.map((block) => block.tokens.map((token) => token.type)), whole.map((block) => block.tokens.map((token) => token.type)), `steps of ${step}`);
    const done = stream.update(long, true);
    assert.deepEqual(done.map((block) => block.raw), whole.map((block) => block.raw));
  }
});

test('blocks far from the end stay the same objects', () => {
  const stream = new BlockStream();
  let text = '';
  let before: unknown;
  for (let i = 0; i < 200; ++i) {
    text += `Paragraph ${i} with *some* words.\n\n`;
    const blocks = stream.update(text, false);
    if (i === 10) before = blocks[3];
    if (i > 10) assert.equal(blocks[3], before);
  }
  assert.equal(stream.update(text, true)[3], before, 'and when the text is complete');
});

test('another text in the same place starts anew', () => {
  const stream = new BlockStream();
  stream.update('a\n\nb\n\nc\n\nd', false);
  assert.deepEqual(stream.update('z\n\ny', false).map((block) => block.raw), ['z\n\n', 'y']);
});

test('line ends of any kind', () => {
  const stream = new BlockStream();
  const types = stream.update('a\r\n\r\n- b\r- c\r\n', true).map((block) => block.tokens[0]?.type);
  assert.deepEqual(types, ['paragraph', 'list']);
});
