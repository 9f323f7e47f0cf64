// What is done to the server, one thing after another. Each phase returns its numbers.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { essence, stream } from './client.mjs';
import { dice, malformed } from './requests.mjs';
import { memory, metric, pause, threadSeconds } from './server.mjs';

const quantile = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
const sum = (values) => values.reduce((a, b) => a + b, 0);

/** Each request by itself: what it must get later, too. */
export async function alone(server, requests) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const expected = [];
  for (const request of requests) expected.push(essence(await stream(server.port, agent, request)));
  agent.destroy();
  return expected;
}

/** All clients at once, for so many seconds. */
export async function crowd(server, requests, expected, { clients, seconds }) {
  const until = performance.now() + seconds * 1000;
  const numbers = { answers: 0, wrong: 0, lost: 0, tokens: 0 };
  const firsts = [];
  const agents = [];
  const client = async (number) => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    agents.push(agent);
    for (let i = number; performance.now() < until; i += clients + 1) {
      const which = i % requests.length;
      try {
        const answer = await stream(server.port, agent, requests[which]);
        ++numbers.answers;
        numbers.tokens += answer.usage?.completion_tokens ?? 0;
        if (answer.first !== null) firsts.push(answer.first);
        if (essence(answer) !== expected[which]) ++numbers.wrong;
      } catch {
        ++numbers.lost;
      }
    }
  };
  const before = threadSeconds(server.pid);
  const began = performance.now();
  const memories = [];
  const sampler = setInterval(() => memories.push(memory(server.pid)), (seconds * 1000) / 40);
  await Promise.all(Array.from({ length: clients }, (_, i) => client(i)));
  clearInterval(sampler);
  const elapsed = (performance.now() - began) / 1000;
  // The connections still live, and with them their threads' times. The busiest is the model's.
  const after = threadSeconds(server.pid);
  for (const agent of agents) agent.destroy();
  firsts.sort((a, b) => a - b);
  const warm = memories.slice(Math.floor(memories.length / 4));
  return {
    ...numbers,
    seconds: elapsed,
    tokens_per_second: numbers.tokens / elapsed,
    first_token_median: quantile(firsts, 0.5),
    first_token_99: quantile(firsts, 0.99),
    microseconds_per_token_of_connections: ((sum(after.slice(1)) - sum(before.slice(1))) / numbers.tokens) * 1e6,
    microseconds_per_token_of_owner: ((after[0] - before[0]) / numbers.tokens) * 1e6,
    memory_early: quantile([...warm.slice(0, 5)].sort((a, b) => a - b), 0.5),
    memory_late: quantile([...warm.slice(-5)].sort((a, b) => a - b), 0.5),
  };
}

/** The same requests without a server: microseconds of processor time per token. */
export function batch(program, model, requests, { sequences, count }) {
  const folder = mkdtempSync(join(tmpdir(), 'fathom-load-'));
  try {
    const file = join(folder, 'requests.jsonl');
    const lines = Array.from({ length: count }, (_, i) => {
      const { stream: _stream, stream_options: _options, ...body } = requests[i % requests.length];
      return JSON.stringify({ custom_id: `${i}`, method: 'POST', url: '/v1/chat/completions', body });
    });
    writeFileSync(file, `${lines.join('\n')}\n`);
    const run = spawnSync(
      'bash',
      ['-c', 'TIMEFORMAT="%U %S"; time "$@" 2>/dev/null', 'batch', program, 'batch', file, '--out', join(folder, 'out'),
        '--model', model, '--parallel', `${sequences}`, '--threads', '1', '--json'],
      { encoding: 'utf8' },
    );
    const { tokens } = JSON.parse(run.stdout);
    const [user, system] = run.stderr.trim().split('\n').at(-1).split(' ').map(Number);
    return ((user + system) / tokens) * 1e6;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Clients in processes of their own, killed in the middle of their streams. */
export async function kills(server, request, count) {
  const body = JSON.stringify({ ...request, ignore_eos: true, max_tokens: 900, n: 4, stop: undefined });
  const children = Array.from({ length: count }, () =>
    spawn(process.execPath, ['-e', `fetch('${server.url}/v1/chat/completions',{method:'POST',body:${JSON.stringify(body)}})
      .then(async (r) => { for await (const piece of r.body) process.stdout.write('x'); })`],
      { stdio: ['ignore', 'pipe', 'ignore'] }));
  await Promise.all(children.map((child) => new Promise((go) => child.stdout.once('data', go))));
  for (const child of children) child.kill('SIGKILL');
  const killed = performance.now();
  const busy = async () =>
    (await metric(server.url, 'vllm:num_requests_running')) + (await metric(server.url, 'vllm:num_requests_waiting'));
  while ((await busy()) > 0 && performance.now() - killed < 30_000) await pause(20);
  return { killed: count, idle: (await busy()) === 0, seconds_until_idle: (performance.now() - killed) / 1000 };
}

/** Requests that are broken in many ways, over a few connections at once. */
export async function noise(server, count) {
  const roll = dice(6);
  const statuses = {};
  const one = () =>
    new Promise((resolve) => {
      const bytes = malformed(roll);
      const patience = roll(3); // 0 leaves without an answer
      const socket = net.connect(server.port, '127.0.0.1', () => {
        socket.write(bytes);
        if (patience === 0) socket.destroy();
      });
      socket.setTimeout(20, () => socket.destroy());
      socket.on('data', (piece) => {
        const status = piece.toString('latin1').slice(9, 12);
        statuses[status] = (statuses[status] ?? 0) + 1;
        socket.destroy();
      });
      socket.on('error', () => {});
      socket.on('close', resolve);
    });
  const before = memory(server.pid);
  let left = count;
  const worker = async () => {
    while (left-- > 0) await one();
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  return { sent: count, statuses, memory_before: before, memory_after: memory(server.pid) };
}
