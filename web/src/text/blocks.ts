// A growing text as a list of blocks of which only the last ones change: what a long answer needs to
// be drawn while it comes.
import type { Token } from 'marked';
import { lex } from './markdown';

export interface Block {
  readonly key: number;
  readonly raw: string;
  readonly tokens: Token[];
}

export class BlockStream {
  private settled: Block[] = [];
  private settledText = '';
  private last: Block[] = [];
  private nextKey = 0;

  /** Blocks that are what they were are the same objects as in the answer before. */
  update(source: string, complete: boolean): Block[] {
    const text = source.includes('\r') ? source.replace(/\r\n?/g, '\n') : source;
    if (!text.startsWith(this.settledText)) this.reset();
    if (complete) {
      // Once over all of it: links may be defined far behind their use.
      const tokens = group(lex(text));
      this.last = this.reuse(tokens, [...this.settled, ...this.last]);
      this.settled = [];
      this.settledText = '';
      return this.last;
    }
    const tokens = group(lex(text.slice(this.settledText.length)));
    const open = this.reuse(tokens, this.last);
    // What comes next can still join the last block (a list goes on after an empty line), not the
    // one before it.
    const firm = Math.max(0, open.length - 2);
    for (const block of open.slice(0, firm)) {
      this.settled.push(block);
      this.settledText += block.raw;
    }
    this.last = open.slice(firm);
    return [...this.settled, ...this.last];
  }

  private reset(): void {
    this.settled = [];
    this.settledText = '';
    this.last = [];
  }

  private reuse(tokens: Token[][], before: Block[]): Block[] {
    return tokens.map((group, i) => {
      const raw = group.map((token) => token.raw).join('');
      const old = before[i];
      if (old && old.raw === raw) return old;
      return { key: old ? old.key : this.nextKey++, raw, tokens: group };
    });
  }
}

// Blank lines go with the block before them.
function group(tokens: Token[]): Token[][] {
  const groups: Token[][] = [];
  for (const token of tokens) {
    const open = groups[groups.length - 1];
    if (token.type === 'space' && open) open.push(token);
    else groups.push([token]);
  }
  return groups;
}
