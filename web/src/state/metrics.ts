// The server's counters (Prometheus text), as far as the page shows them.

/** The sum of a metric over its labels; nothing where it is not there. */
export function metric(text: string, name: string): number | undefined {
  let sum: number | undefined;
  for (const line of text.split('\n')) {
    if (!line.startsWith(name)) continue;
    const next = line[name.length];
    if (next !== ' ' && next !== '{') continue;
    const value = Number(line.slice(line.lastIndexOf('}') + 1).trim().split(/\s+/)[next === '{' ? 0 : 1]);
    if (Number.isFinite(value)) sum = (sum ?? 0) + value;
  }
  return sum;
}

export interface Load {
  running?: number;
  waiting?: number;
}

export function loadOf(text: string): Load {
  return { running: metric(text, 'vllm:num_requests_running'), waiting: metric(text, 'vllm:num_requests_waiting') };
}

/** What the server has worked so far, in seconds. */
export interface Work {
  diskWait?: number; // with nothing to compute
  passes?: number; // through the layers, waits included
}

export function workOf(text: string): Work {
  return { diskWait: metric(text, 'fathom:disk_wait_seconds_total'), passes: metric(text, 'fathom:compute_seconds_total') };
}

/** Where the time of an answer went, as shares of it. Others' work in the same passes counts as well. */
export function timeShares(before: Work, after: Work, totalMs: number): { diskShare?: number; computeShare?: number } {
  if (before.passes === undefined || after.passes === undefined || totalMs <= 0) return {};
  const share = (seconds: number) => Math.min(1, Math.max(0, (seconds * 1000) / totalMs));
  const disk = (after.diskWait ?? 0) - (before.diskWait ?? 0);
  const computeShare = share(after.passes - before.passes - disk);
  return disk > 0 ? { diskShare: share(disk), computeShare } : { computeShare };
}
