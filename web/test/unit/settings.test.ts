import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorOf, retryAfter } from '../../src/api/errors';
import { loadOf, metric, timeShares, workOf } from '../../src/state/metrics';
import { checkedSettings, type Field, fields, isRecommended, parseField, recommended } from '../../src/state/settings';
import { MemoryShelf, recall, remember } from '../../src/state/storage';
import { newConversation } from '../../src/state/conversation';
import { duration, statsLine } from '../../src/view/words';

const field = (name: string) => fields.find((entry) => entry.name === name) as Field;

test('fields take numbers in their range', () => {
  assert.deepEqual(parseField(field('temperature'), ' 0,7 '), { value: 0.7 });
  assert.deepEqual(parseField(field('temperature'), ''), { value: 0.6 });
  assert.deepEqual(parseField(field('seed'), ''), {});
  assert.deepEqual(parseField(field('seed'), '12'), { value: 12 });
  for (const [name, text] of [['temperature', '-1'], ['temperature', '2.1'], ['top_p', '0'], ['seed', '1.5'], ['max_tokens', '0'], ['seed', 'x'], ['top_p', 'Infinity']] as const) {
    assert.ok(parseField(field(name), text).error, `${name} ${text}`);
  }
});

test('stored settings are checked one by one', () => {
  assert.deepEqual(checkedSettings(null), recommended);
  assert.deepEqual(checkedSettings({ temperature: 9, top_p: 0.5, seed: 3, nonsense: 1, top_k: 'x' }), { temperature: 0.6, top_p: 0.5, seed: 3 });
  assert.equal(isRecommended(checkedSettings({})), true);
  assert.equal(isRecommended(checkedSettings({ seed: 1 })), false);
});

function fakeStorage(refuse: boolean): Storage {
  const held = new Map<string, string>();
  return {
    getItem: (key: string) => held.get(key) ?? null,
    setItem: (key: string, value: string) => {
      if (refuse) throw new DOMException('full', 'QuotaExceededError');
      held.set(key, value);
    },
    removeItem: (key: string) => held.delete(key),
  } as unknown as Storage;
}

test('small things are remembered, and a browser that refuses forgets them', () => {
  const good = fakeStorage(false);
  remember('x', { a: 1 }, () => good);
  assert.deepEqual(recall('x', () => good), { a: 1 });
  remember('x', undefined, () => good);
  assert.equal(recall('x', () => good), null);
  const full = fakeStorage(true);
  remember('x', 1, () => full);
  assert.equal(recall('x', () => full), null);
  const none = () => {
    throw new DOMException('no', 'SecurityError');
  };
  remember('x', 1, none);
  assert.equal(recall('x', none), null);
});

test('the shelf in memory', async () => {
  const shelf = new MemoryShelf();
  const conversation = { ...newConversation(5), title: 't' };
  await shelf.put(conversation);
  assert.deepEqual(await shelf.heads(), [{ id: conversation.id, title: 't', created: 5, updated: 5 }]);
  assert.equal(await shelf.get(conversation.id), conversation);
  await shelf.remove(conversation.id);
  assert.deepEqual(await shelf.heads(), []);
});

test('Retry-After as seconds and as a date', () => {
  const now = Date.parse('2024-01-01T00:00:00Z');
  assert.equal(retryAfter('7', now), 7);
  assert.equal(retryAfter('Mon, 01 Jan 2024 00:00:05 GMT', now), 5);
  assert.equal(retryAfter('Sun, 31 Dec 2023 00:00:05 GMT', now), 0);
  for (const text of [null, '', 'soon']) assert.equal(retryAfter(text, now), undefined);
});

test('answers that are errors, by kind', async () => {
  const kind = async (status: number, body: string, headers = {}) => {
    const error = await errorOf(new Response(body, { status, headers }));
    return [error.kind, error.retryAfter];
  };
  const json = (code: string) => JSON.stringify({ error: { message: 'm', type: 't', code } });
  assert.deepEqual(await kind(401, json('invalid_api_key')), ['key', undefined]);
  assert.deepEqual(await kind(429, json('x'), { 'retry-after': '3' }), ['busy', 3]);
  assert.deepEqual(await kind(503, json('x')), ['loading', undefined]);
  assert.deepEqual(await kind(400, json('context_length_exceeded')), ['context', undefined]);
  assert.deepEqual(await kind(400, json('x')), ['request', undefined]);
  assert.deepEqual(await kind(502, '<html>bad gateway'), ['server', undefined]);
  assert.equal((await errorOf(new Response('{"error":"plain"}', { status: 400 }))).message, 'plain');
  assert.match((await errorOf(new Response('nope', { status: 502 }))).message, /502/);
});

const text = `# HELP vllm:num_requests_waiting w
vllm:num_requests_running{model_name="a b"} 2
vllm:num_requests_waiting{model_name="a b"} 3
vllm:num_requests_waiting_more{model_name="x"} 9
fathom:disk_wait_seconds_total{m="x"} 4.5
fathom:compute_seconds_total{m="x",part="attention"} 1
fathom:compute_seconds_total{m="x",part="experts"} 7.5e0
plain 12
`;

test('metrics', () => {
  assert.deepEqual(loadOf(text), { running: 2, waiting: 3 });
  assert.equal(metric(text, 'plain'), 12);
  assert.equal(metric(text, 'absent'), undefined);
  assert.deepEqual(workOf(text), { diskWait: 4.5, passes: 8.5 });
});

test('where the time went', () => {
  const shares = timeShares({ diskWait: 1, passes: 2 }, { diskWait: 7, passes: 10 }, 10_000);
  assert.deepEqual(shares, { diskShare: 0.6, computeShare: 0.2 });
  assert.deepEqual(timeShares({ diskWait: 0, passes: 0 }, { diskWait: 0, passes: 5 }, 10_000), { computeShare: 0.5 });
  assert.deepEqual(timeShares({}, {}, 1000), {});
  assert.deepEqual(timeShares(workOf('other 1'), workOf(text), 1000), {});
});

test('words for numbers', () => {
  assert.deepEqual([40, 1234, 9_940, 12_400, 61_000, 3_725_000].map(duration), ['0.1 s', '1.2 s', '9.9 s', '12 s', '1 min 1 s', '1 h 2 min']);
  assert.equal(statsLine({ answerTokens: 1234, rate: 3.14, totalMs: 65_000, diskShare: 0.71 }), '1,234 tokens · 3.1 tokens/s · 1 min 5 s · disk 71 %');
  assert.equal(statsLine({}), '');
});
