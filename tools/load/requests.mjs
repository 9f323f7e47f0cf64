// What clients ask: good requests, and bad ones.

/** A generator of whole numbers below `count` that a seed repeats. */
export function dice(seed) {
  let state = seed >>> 0;
  return (count) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * count);
  };
}

/** Different questions, lengths and ways of sampling. */
export function chats(count) {
  return Array.from({ length: count }, (_, i) => ({
    messages: [{ role: 'user', content: `What is ${10 + ((i * 7) % 90)}+${10 + ((i * 13) % 90)}?` }],
    temperature: i % 3 === 0 ? 0 : 1,
    seed: 1000 + i,
    max_tokens: 24 + ((i * 5) % 60),
    ignore_eos: i % 4 === 0,
    stop: i % 5 === 0 ? ['the answer'] : undefined,
    stream: true,
    stream_options: { include_usage: true },
  }));
}

const bodies = [
  '{"messages":[{"role":"user","content":"x"}],"max_tokens":2}',
  '{"prompt":"x","max_tokens":1,"stream":true}',
  '{"prompt":[1,2,3],"logit_bias":{"5":1},"stop":["a","b"],"max_tokens":1}',
  '{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"n":2,"max_tokens":1}',
  '{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}],"logprobs":true}',
  '{"tokens":[1,2,3]}', '[[[[[[', '{"prompt":"\\ud800"}', '\xff\xfe', '',
];
const paths = ['/v1/chat/completions', '/v1/completions', '/tokenize', '/detokenize', '/v1/models/%zz',
  '/metrics', '/', '/../etc', '*'];
const methods = ['POST', 'POST', 'POST', 'GET', 'OPTIONS', 'DELETE', 'get'];
const heads = ['', 'Transfer-Encoding: chunked\r\n', 'Connection: close\r\n', 'Expect: 100-continue\r\n',
  'Content-Length: 3\r\n', 'Authorization: Bearer \xff\r\n'];

/** The bytes of a request that is right but for a few of them, or noise. */
export function malformed(roll) {
  if (roll(20) === 0) return Buffer.from(Array.from({ length: roll(300) }, () => roll(256)));
  const body = bodies[roll(bodies.length)];
  let text =
    `${methods[roll(methods.length)]} ${paths[roll(paths.length)]} HTTP/1.1\r\nHost: a\r\n` +
    `${heads[roll(heads.length)]}Content-Length: ${body.length}\r\n\r\n${body}`;
  for (let changes = roll(4); changes > 0 && text.length > 0; --changes) {
    const at = roll(text.length);
    const kind = roll(4);
    if (kind === 0) text = text.slice(0, at) + String.fromCharCode(roll(256)) + text.slice(at + 1);
    else if (kind === 1) text = text.slice(0, at) + text.slice(at + roll(8));
    else if (kind === 2) text = text.slice(0, at) + text.slice(roll(text.length)).slice(0, roll(20)) + text.slice(at);
    else text = text.slice(0, at + 1);
  }
  return Buffer.from(text, 'latin1');
}
