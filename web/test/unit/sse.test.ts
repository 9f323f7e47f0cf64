import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SseParser } from '../../src/api/sse';

interface Seen {
  events: [data: string, name: string][];
  comments: string[];
}

function parse(parts: Uint8Array[]): Seen {
  const seen: Seen = { events: [], comments: [] };
  const parser = new SseParser({
    event: (data, name) => seen.events.push([data, name]),
    comment: (text) => seen.comments.push(text),
  });
  for (const part of parts) parser.feed(part);
  parser.end();
  return seen;
}
const bytes = (text: string) => new TextEncoder().encode(text);

test('events, comments, names and several data lines', () => {
  const seen = parse([bytes(': keep-alive\n\ndata: one\n\nevent: odd\ndata: a\ndata:b\ndata\n\nid: 7\nretry: 5\n\n')]);
  assert.deepEqual(seen.events, [
    ['one', 'message'],
    ['a\nb\n', 'odd'],
  ]);
  assert.deepEqual(seen.comments, ['keep-alive']);
});

test('every way of cutting the bytes gives the same', () => {
  const whole = bytes('data: {"a":"größe 世界 🙂"}\r\n\r\n: wait\r\ndata: zwei\rdata: drei\r\rdata: [DONE]\n\n');
  const wanted: Seen = {
    events: [
      ['{"a":"größe 世界 🙂"}', 'message'],
      ['zwei\ndrei', 'message'],
      ['[DONE]', 'message'],
    ],
    comments: ['wait'],
  };
  assert.deepEqual(parse([whole]), wanted);
  assert.deepEqual(parse(Array.from(whole, (byte) => Uint8Array.of(byte))), wanted);
  for (let cut = 0; cut <= whole.length; ++cut) {
    assert.deepEqual(parse([whole.slice(0, cut), new Uint8Array(), whole.slice(cut)]), wanted, `cut at ${cut}`);
  }
});

test('what has no blank line behind it is no event', () => {
  assert.deepEqual(parse([bytes('data: half')]).events, []);
  assert.deepEqual(parse([bytes('data: half\n')]).events, []);
});

test('a byte order mark is not part of the first field', () => {
  assert.deepEqual(parse([bytes('\ufeffdata: x\n\n')]).events, [['x', 'message']]);
});

test('only the first space after the colon is dropped', () => {
  assert.deepEqual(parse([bytes('data:  two\n\ndata:none\n\n')]).events, [
    [' two', 'message'],
    ['none', 'message'],
  ]);
});

test('broken UTF-8 becomes replacement characters and goes on', () => {
  const seen = parse([bytes('data: a'), Uint8Array.of(0xe4, 0xb8), bytes('b\n\ndata: c\n\n')]);
  assert.deepEqual(seen.events.map(([data]) => data), ['a\ufffdb', 'c']);
});
