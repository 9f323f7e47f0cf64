// Numbers and states as people read them.
import type { Stats } from '../state/conversation';

export function duration(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 10) return `${Math.max(0.1, Math.round(seconds * 10) / 10)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const count = (value: number) => value.toLocaleString('en-US');

const percent = (share: number) => `${Math.round(share * 100)} %`;

export function rate(value: number): string {
  return `${value >= 10 ? Math.round(value) : value >= 0.1 ? value.toFixed(1) : value.toPrecision(1)} tokens/s`;
}

/** One line on what an answer took. */
export function statsLine(stats: Stats): string {
  const parts: string[] = [];
  if (stats.answerTokens) parts.push(`${count(stats.answerTokens)} tokens`);
  if (stats.rate !== undefined) parts.push(rate(stats.rate));
  if (stats.totalMs !== undefined) parts.push(duration(stats.totalMs));
  if (stats.diskShare !== undefined) parts.push(`disk ${percent(stats.diskShare)}`);
  if (stats.computeShare !== undefined) parts.push(`compute ${percent(stats.computeShare)}`);
  return parts.join(' · ');
}

export function statsRows(stats: Stats): [name: string, value: string][] {
  const rows: [string, string][] = [];
  const add = (name: string, value: number | undefined, words: (value: number) => string) => {
    if (value !== undefined) rows.push([name, words(value)]);
  };
  add('Question and history', stats.promptTokens, (n) => `${count(n)} tokens`);
  add('of them known already', stats.cachedTokens || undefined, (n) => `${count(n)} tokens`);
  add('First token after', stats.firstTokenMs, duration);
  add('Thought', stats.thoughtTokens || undefined, (n) => `${count(n)} tokens`);
  add('Thought and answer', stats.answerTokens || undefined, (n) => `${count(n)} tokens`);
  add('Speed', stats.rate, rate);
  add('All of it', stats.totalMs, duration);
  return rows;
}

export interface TimeShare {
  kind: 'disk' | 'compute' | 'rest';
  share: number;
  words: string;
}

/** The whole time in parts, in the order in which they are drawn; none where the server tells nothing. */
export function timeShares({ diskShare = 0, computeShare }: Stats): TimeShare[] {
  if (computeShare === undefined) return [];
  const compute = Math.min(computeShare, 1 - diskShare);
  const shares: TimeShare[] = [];
  const add = (kind: TimeShare['kind'], share: number, name: string) => {
    if (share >= 0.005) shares.push({ kind, share, words: `${name} ${percent(share)}` });
  };
  add('disk', diskShare, 'Waiting for the disk');
  add('compute', compute, 'Computing');
  add('rest', 1 - diskShare - compute, 'Other');
  return shares;
}
