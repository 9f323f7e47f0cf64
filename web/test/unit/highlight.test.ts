import assert from 'node:assert/strict';
import { test } from 'node:test';
import { highlightLine, Listing, type Piece, startState } from '../../src/text/highlight';

const line = (text: string, language: string) => highlightLine(text, language, startState).pieces.map((piece) => [piece.tint, piece.text]);
const plain = (lines: Piece[][]) => lines.map((pieces) => pieces.map((piece) => piece.text).join('')).join('\n');

test('keywords, names, numbers, strings and comments', () => {
  assert.deepEqual(line('return f(0x1F, "a\\"b"); // end', 'cpp'), [
    ['keyword', 'return'], ['', ' '], ['name', 'f'], ['', '('], ['number', '0x1F'], ['', ', '], ['string', '"a\\"b"'], ['', '); '], ['comment', '// end'],
  ]);
  assert.deepEqual(line("SELECT 'x' -- y", 'sql'), [['keyword', 'SELECT'], ['', ' '], ['string', "'x'"], ['', ' '], ['comment', '-- y']]);
  assert.deepEqual(line('echo $# # words', 'sh'), [['keyword', 'echo'], ['', ' $# '], ['comment', '# words']]);
});

test('an apostrophe alone opens no string', () => {
  assert.deepEqual(line("don't", 'js'), [['', "don't"]]);
});

test('comments and strings over lines', () => {
  const lines = new Listing('py').update('x = """a\nif b\n"""; y = 1');
  assert.deepEqual(lines[1], [{ tint: 'string', text: 'if b' }]);
  assert.deepEqual(lines[2]?.[0], { tint: 'string', text: '"""' });
  assert.deepEqual(lines[2]?.at(-1), { tint: 'number', text: '1' });
});

test('unknown languages stay plain, and nothing is ever lost', () => {
  const texts = ['int main() { /* x\n y */ return \'c\'; } // ü🙂\n', '"unclosed', '`a\n${b}`', '<!-- x\n-->', '+a\n-b\n@@ c', '\\'];
  for (const language of ['c', 'js', 'py', 'html', 'diff', 'nonsense', '', '__proto__', 'constructor']) {
    for (const text of texts) assert.equal(plain(new Listing(language).update(text)), text, language);
  }
});

test('a listing that grows is the listing that was given at once', () => {
  const code = 'a = 1 /* b\nc */ + "d"\n// e\nf(`g\nh`)\n';
  const growing = new Listing('js');
  for (let end = 0; end <= code.length; ++end) {
    assert.deepEqual(growing.update(code.slice(0, end)), new Listing('js').update(code.slice(0, end)));
  }
});
