import { memo } from 'preact/compat';
import { useRef } from 'preact/hooks';
import { Listing, type Piece } from '../text/highlight';
import { CopyButton } from './copy';

const together = 40; // lines that are drawn again as one when any of them changes

interface LinesProps {
  lines: Piece[][];
  last: boolean;
}

const Lines = memo(
  ({ lines, last }: LinesProps) => (
    <>
      {lines.map((pieces, i) => (
        <>
          {pieces.map((piece) => (piece.tint ? <span class={`hl-${piece.tint}`}>{piece.text}</span> : piece.text))}
          {last && i === lines.length - 1 ? '' : '\n'}
        </>
      ))}
    </>
  ),
  (a: LinesProps, b: LinesProps) =>
    a.last === b.last && a.lines.length === b.lines.length && a.lines.every((line, i) => line === b.lines[i]),
);

export function CodeBlock({ code, language }: { code: string; language: string }) {
  const listing = useRef<Listing>();
  if (listing.current?.language !== language) listing.current = new Listing(language);
  const lines = listing.current.update(code);
  const chunks: Piece[][][] = [];
  for (let i = 0; i < lines.length; i += together) chunks.push(lines.slice(i, i + together));
  return (
    <figure class="code">
      <figcaption>
        <span>{language || 'code'}</span>
        <CopyButton text={() => code} label="Copy code" />
      </figcaption>
      <pre tabIndex={0} aria-label={language ? `Code in ${language}` : 'Code'}>
        <code>
          {chunks.map((chunk, i) => (
            <Lines key={i} lines={chunk} last={i === chunks.length - 1} />
          ))}
        </code>
      </pre>
    </figure>
  );
}
