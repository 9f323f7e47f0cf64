// Colours for code: a small scanner that knows comments, strings, numbers and keywords. It goes line
// by line with a state between lines, so that a growing listing is never scanned twice.

export type Tint = '' | 'comment' | 'string' | 'number' | 'keyword' | 'name' | 'insert' | 'delete';
export interface Piece {
  tint: Tint;
  text: string;
}

interface Language {
  keywords: Set<string>;
  anyCase?: boolean;
  lineComments: string[];
  /** Pairs that may go over several lines, comments and strings. */
  spans: [open: string, close: string, tint: Tint][];
  quotes: string;
  /** What may stand in a word besides letters, digits and _. */
  inWords?: string;
}

const words = (text: string) => new Set(text.split(' '));
const language = (keywords: string, parts: Partial<Language> = {}): Language => ({
  keywords: words(keywords),
  lineComments: ['//'],
  spans: [['/*', '*/', 'comment']],
  quotes: '"\'',
  ...parts,
});

const template: Language['spans'][number] = ['`', '`', 'string'];
const blockComment: Language['spans'][number] = ['/*', '*/', 'comment'];
const hash = { lineComments: ['#'], spans: [] as Language['spans'] };

const c = language(
  'alignas alignof auto bool break case catch char class co_await co_return co_yield concept const consteval constexpr ' +
    'constinit const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false ' +
    'final float for friend goto if inline int long mutable namespace new noexcept nullptr operator override private ' +
    'protected public register reinterpret_cast requires return short signed sizeof static static_assert static_cast ' +
    'struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void ' +
    'volatile wchar_t while size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t ' +
    '#include #define #if #ifdef #ifndef #else #elif #endif #pragma #undef',
  { inWords: '#' },
);
const javascript = language(
  'abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum ' +
    'export extends false finally for from function get if implements import in instanceof interface keyof let namespace ' +
    'never new null number of private protected public readonly return set static string super switch this throw true ' +
    'try type typeof undefined unknown var void while with yield',
  { spans: [blockComment, template], inWords: '$' },
);
const python = language(
  'and as assert async await break case class continue def del elif else except False finally for from global if import ' +
    'in is lambda match None nonlocal not or pass raise return self True try while with yield',
  { lineComments: ['#'], spans: [['"""', '"""', 'string'], ["'''", "'''", 'string']] },
);
const java = language(
  'abstract as base bool boolean break byte case catch char class const continue data decimal default do double else enum ' +
    'extends false final finally float for foreach fun get if implements import in instanceof int interface internal is ' +
    'let long namespace new null object open out override package private protected public readonly record ref return ' +
    'sealed set short static string struct super switch synchronized this throw throws true try typeof using val var ' +
    'virtual void when where while',
  { inWords: '@' },
);
const go = language(
  'any bool break byte case chan const continue default defer else error fallthrough false float32 float64 for func go ' +
    'goto if import int int32 int64 interface map nil package range return rune select string struct switch true type ' +
    'uint uint8 uint32 uint64 var',
  { spans: [blockComment, template] },
);
const rust = language(
  'as async await bool break const continue crate dyn else enum extern f32 f64 false fn for i8 i16 i32 i64 if impl in let ' +
    'loop match mod move mut pub ref return self Self static str String struct super trait true type u8 u16 u32 u64 unsafe ' +
    'use usize where while isize',
  { quotes: '"' },
);
const shell = language(
  'case cd do done echo elif else esac eval exit export fi for function if in local read return set shift source sudo then ' +
    'trap unset until while',
  { ...hash, inWords: '-' },
);
const sql = language(
  'add all alter and as asc avg between by case count create delete desc distinct drop else end exists from full group ' +
    'having in index inner insert into is join key left like limit max min not null on or order outer primary references ' +
    'right select set sum table then union unique update values view when where with',
  { anyCase: true, lineComments: ['--'] },
);
const ruby = language(
  'alias and begin break case class def do else elsif end ensure false for if in module next nil not or raise require ' +
    'rescue return self super then true unless until when while yield',
  hash,
);
const lua = language('and break do else elseif end false for function goto if in local nil not or repeat return then true until while', {
  lineComments: ['--'],
  spans: [['[[', ']]', 'string']],
});
const yaml = language('true false null yes no on off', hash);
const css = language('important media supports import keyframes from to', { lineComments: [], inWords: '-@' });
const markup: Language = { keywords: new Set(), lineComments: [], spans: [['<!--', '-->', 'comment']], quotes: '"' };
const tex: Language = { keywords: new Set(), lineComments: ['%'], spans: [], quotes: '' };
const json = language('true false null', { quotes: '"' });
const swift = language(
  'any as async await break case catch class default defer do else enum extension false fileprivate for func guard if ' +
    'import in init inout internal is let nil open override private protocol public return self static struct super ' +
    'switch throw throws true try typealias var where while',
  { quotes: '"' },
);

const languages: Record<string, Language | 'diff'> = {
  c, h: c, cpp: c, 'c++': c, cc: c, cxx: c, hpp: c, cuda: c, glsl: c, arduino: c,
  js: javascript, javascript, jsx: javascript, ts: javascript, typescript: javascript, tsx: javascript, mjs: javascript,
  py: python, python, python3: python,
  java, kotlin: java, kt: java, cs: java, csharp: java, 'c#': java, scala: java, dart: java, php: java,
  go, golang: go, rust, rs: rust, swift,
  sh: shell, bash: shell, shell, zsh: shell, console: shell, dockerfile: shell, makefile: shell,
  sql, mysql: sql, postgresql: sql, sqlite: sql,
  rb: ruby, ruby, lua, r: ruby, perl: ruby, elixir: ruby,
  yaml, yml: yaml, toml: yaml, ini: yaml, css, scss: css, less: css,
  html: markup, xml: markup, svg: markup, vue: markup, json, jsonc: json, json5: json, tex, latex: tex, diff: 'diff', patch: 'diff',
};

/** What is open at the end of a line: the close of a span, or nothing. */
export interface LineState {
  close: string;
  tint: Tint;
}
export const startState: LineState = { close: '', tint: '' };

export function isKnown(name: string): boolean {
  return Object.prototype.hasOwnProperty.call(languages, name.toLowerCase());
}

const isWord = (code: number) =>
  (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || code === 95 || code > 127;

export function highlightLine(line: string, name: string, state: LineState): { pieces: Piece[]; state: LineState } {
  const known = isKnown(name) ? languages[name.toLowerCase()] : undefined;
  if (!known) return { pieces: line ? [{ tint: '', text: line }] : [], state };
  if (known === 'diff') {
    const tint: Tint = line.startsWith('+') ? 'insert' : line.startsWith('-') ? 'delete' : line.startsWith('@@') ? 'comment' : '';
    return { pieces: line ? [{ tint, text: line }] : [], state };
  }
  return new LineScanner(line, known, state).scan();
}

class LineScanner {
  private readonly pieces: Piece[] = [];
  private at = 0;

  constructor(
    private readonly line: string,
    private readonly language: Language,
    private state: LineState,
  ) {}

  scan(): { pieces: Piece[]; state: LineState } {
    if (this.state.close) this.takeSpan(0);
    while (this.at < this.line.length) this.takeOne();
    return { pieces: this.pieces, state: this.state };
  }

  private put(tint: Tint, end: number): void {
    const text = this.line.slice(this.at, end);
    this.at = end;
    if (!text) return;
    const last = this.pieces[this.pieces.length - 1];
    if (last && last.tint === tint) last.text += text;
    else this.pieces.push({ tint, text });
  }

  /** From `this.at` to the close of the open span, searched for `skip` characters further on. */
  private takeSpan(skip: number): void {
    const { close, tint } = this.state;
    const end = this.line.indexOf(close, this.at + skip);
    if (end >= 0) this.state = startState;
    this.put(tint, end < 0 ? this.line.length : end + close.length);
  }

  private takeOne(): void {
    const { line, at, language } = this;
    const c = line[at] as string;
    for (const [open, close, tint] of language.spans) {
      if (line.startsWith(open, at)) {
        this.state = { close, tint };
        return this.takeSpan(open.length);
      }
    }
    for (const open of language.lineComments) {
      // Where # begins comments it is one only at the start of a word: $# and a#b are none.
      if (line.startsWith(open, at) && (open !== '#' || at === 0 || /\s/.test(line[at - 1] as string))) {
        return this.put('comment', line.length);
      }
    }
    if (language.quotes.includes(c)) {
      const end = this.endOfString(c);
      // No second quote: an apostrophe, or a string that the line cuts.
      return end < 0 ? this.put('', at + 1) : this.put('string', end);
    }
    const starts = language.inWords ?? '';
    if (!isWord(line.charCodeAt(at)) && !(starts.includes(c) && c !== '-')) return this.put('', at + 1);
    let end = at + 1;
    while (end < line.length && (isWord(line.charCodeAt(end)) || starts.includes(line[end] as string))) ++end;
    const word = line.slice(at, end);
    if (/^\d/.test(word)) {
      const number = /^\d[\w.]*/.exec(line.slice(at))?.[0] ?? word;
      return this.put('number', at + number.length);
    }
    const keyword = language.keywords.has(language.anyCase ? word.toLowerCase() : word);
    this.put(keyword ? 'keyword' : line[end] === '(' ? 'name' : '', end);
  }

  private endOfString(quote: string): number {
    for (let i = this.at + 1; i < this.line.length; ++i) {
      if (this.line[i] === '\\') ++i;
      else if (this.line[i] === quote) return i + 1;
    }
    return -1;
  }
}

/** The lines of a listing that grows: what is scanned stays. */
export class Listing {
  private lines: { text: string; pieces: Piece[]; after: LineState }[] = [];

  constructor(readonly language: string) {}

  update(code: string): Piece[][] {
    const texts = code.split('\n');
    let state = startState;
    for (let i = 0; i < texts.length; ++i) {
      const text = texts[i] as string;
      const before = this.lines[i];
      if (before && before.text === text) {
        state = before.after;
        continue;
      }
      const { pieces, state: after } = highlightLine(text, this.language, state);
      this.lines.length = i;
      this.lines.push({ text, pieces, after });
      state = after;
    }
    this.lines.length = texts.length;
    return this.lines.map((line) => line.pieces);
  }
}
