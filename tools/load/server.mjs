// The program under load, and what the system tells of it.
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';

export async function start(program, args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  const line = await new Promise((resolve, reject) => {
    createInterface(child.stdout).once('line', resolve);
    ended.then((code) => reject(new Error(`the program ended with ${code}`)));
  });
  const { url, port } = JSON.parse(line);
  while ((await fetch(`${url}/health`)).status !== 200) await pause(20);
  return { pid: child.pid, url, port, ended, terminate: () => child.kill('SIGTERM') };
}

export const pause = (milliseconds) => new Promise((go) => setTimeout(go, milliseconds));

/** Resident memory in bytes. */
export function memory(pid) {
  return 1024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
}

/** Seconds of processor time of every thread that lives, the busiest one first. */
export function threadSeconds(pid) {
  return readdirSync(`/proc/${pid}/task`)
    .map((id) => {
      try {
        return Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e9;
      } catch {
        return 0; // it has ended meanwhile
      }
    })
    .sort((a, b) => b - a);
}

/** A number of /metrics whose line begins so. */
export async function metric(url, name) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(name));
  return line ? Number(line.slice(line.lastIndexOf(' '))) : NaN;
}
