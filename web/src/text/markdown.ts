// Markdown with LaTeX, as tokens. No HTML is ever made from a model's words: tokens become elements
// one by one (view/markdown.tsx), and tags in the text stay text.
import { Marked, type Token, type TokenizerAndRendererExtension, type Tokens } from 'marked';

export interface MathToken {
  type: 'math';
  raw: string;
  tex: string;
  display: boolean;
}

// LaTeX allows no empty line in a formula, which keeps a stray dollar from swallowing an answer.
const body = '((?:(?!\\n[ \\t]*\\n)[\\s\\S])+?)';
const blockRule = new RegExp(`^ {0,3}(?:\\\\\\[${body}\\\\\\]|\\$\\$${body}\\$\\$)[ \\t]*(?:\\n+|$)`);
const displayRule = new RegExp(`^(?:\\\\\\[${body}\\\\\\]|\\$\\$${body}\\$\\$)`);
const parenRule = new RegExp(`^\\\\\\(${body}\\\\\\)`);
// A dollar opens before something and closes after something, and prices have a digit behind it.
const dollarRule = /^\$(?![\s$])((?:\\[\s\S]|(?!\n[ \t]*\n)[^\\$])+?)(?<![\s])\$(?![\d$])/;

function mathToken(type: string, raw: string, tex: string, display: boolean): Tokens.Generic {
  return { type, raw, tex: tex.trim(), display };
}

const mathBlock: TokenizerAndRendererExtension = {
  name: 'math',
  level: 'block',
  start(text) {
    const at = text.search(/\n {0,3}(?:\\\[|\$\$)/);
    return at < 0 ? undefined : at + 1;
  },
  tokenizer(text) {
    const match = blockRule.exec(text);
    return match ? mathToken('math', match[0], match[1] ?? match[2] ?? '', true) : undefined;
  },
};

const mathInline: TokenizerAndRendererExtension = {
  name: 'mathInline',
  level: 'inline',
  start(text) {
    const at = text.search(/\\[([]|\$/);
    return at < 0 ? undefined : at;
  },
  tokenizer(text) {
    let match = displayRule.exec(text);
    if (match) return mathToken('math', match[0], match[1] ?? match[2] ?? '', true);
    match = parenRule.exec(text) ?? dollarRule.exec(text);
    return match ? mathToken('math', match[0], match[1] ?? '', false) : undefined;
  },
};

const marked = new Marked({ gfm: true, breaks: false });
marked.use({
  extensions: [mathBlock, mathInline],
  tokenizer: { html: () => undefined, tag: () => undefined },
});

export function lex(text: string): Token[] {
  return marked.lexer(text);
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

/** Character references, which Markdown means as the characters. */
export function unescapeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(amp|lt|gt|quot|apos|nbsp));/g, (all, dec, hex, name) => {
    if (name) return entities[name as string] ?? all;
    const code = dec ? Number(dec) : parseInt(hex as string, 16);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : '\ufffd';
  });
}

/** A link's address where it is one that a click may follow. */
export function safeAddress(href: string): string | undefined {
  // Browsers ignore controls and white space inside a scheme.
  const plain = href.replace(/[\u0000-\u0020\u007f-\u00a0]/g, '');
  return /^(?:https?:\/\/|mailto:)/i.test(plain) ? plain : undefined;
}
