// A `fathom serve` of its own for a test, on a free port.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import OpenAI from 'openai';

/** Starts the program and waits until its model is loaded. stop() ends it and tells its exit code. */
export async function serve(...options) {
  const child = spawn(
    process.env.FATHOM_PROGRAM,
    ['serve', '--model', process.env.FATHOM_MODEL, '--port', '0', '--json', ...options],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  const first = await Promise.race([
    new Promise((resolve) => createInterface(child.stdout).once('line', resolve)),
    ended.then((code) => Promise.reject(new Error(`the program ended with ${code}`))),
  ]);
  const { url } = JSON.parse(first);
  while ((await fetch(`${url}/health`)).status !== 200) await new Promise((go) => setTimeout(go, 20));
  return {
    url,
    client: (more = {}) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, ...more }),
    /** A line of /metrics. */
    metric: async (name) => {
      const text = await (await fetch(`${url}/metrics`)).text();
      const line = text.split('\n').find((one) => one.startsWith(name));
      return line ? Number(line.slice(line.lastIndexOf(' '))) : NaN;
    },
    stop: () => {
      child.kill('SIGTERM');
      return ended;
    },
  };
}
