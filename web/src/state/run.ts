// One answer being written: from the request to its last token, with the times that it took.
import type { Client, Usage } from '../api/client';
import { ApiError } from '../api/errors';
import type { Message, Stats, Status } from './conversation';
import { timeShares, workOf } from './metrics';
import { type Asking, chatRequest } from './request';

export type Phase = 'sending' | 'reading' | 'thinking' | 'answering';

export interface RunEvents {
  /** At most once per frame. */
  progress(change: Partial<Message>): void;
  end(change: Partial<Message>): void;
}

/** Calls back with the next frame; also, slower, where no frames are drawn. */
function nextFrame(work: () => void): void {
  let done = false;
  const once = () => {
    if (done) return;
    done = true;
    work();
  };
  requestAnimationFrame(once);
  setTimeout(once, 250);
}

export class Run {
  readonly started = performance.now();
  phase: Phase = 'sending';
  private readonly abort = new AbortController();
  private reasoning: string;
  private content: string;
  private readonly thoughtBefore: number; // ms, where an answer is continued
  private firstToken?: number;
  private thoughtEnd?: number;
  private pieces = 0;
  private reason = '';
  private usage?: Usage;
  private shares: Pick<Stats, 'diskShare' | 'computeShare'> = {};
  private finished?: number;
  private framed = false;
  private ended = false;

  constructor(
    readonly messageId: string,
    private readonly asking: Asking,
    private readonly events: RunEvents,
  ) {
    this.reasoning = asking.unfinished?.reasoning ?? '';
    this.content = asking.unfinished?.content ?? '';
    this.thoughtBefore = asking.unfinished?.stats?.thoughtMs ?? 0;
  }

  stop(): void {
    this.abort.abort();
  }

  async go(client: Client): Promise<void> {
    let end: Partial<Message>;
    // Not waited for: the question goes first. A server that keeps its metrics to itself tells nothing.
    const before = client.metrics().then(workOf);
    try {
      await client.chat(chatRequest(this.asking), this.abort.signal, {
        opened: () => this.enter('reading'),
        comment: () => undefined,
        delta: (reasoning, content) => this.take(reasoning, content),
        finish: (reason) => (this.reason = reason),
        usage: (usage) => (this.usage = usage),
      });
      end = { status: this.reason === 'length' ? 'length' : 'done', failure: undefined };
      this.finished = performance.now();
      const [start, now] = await Promise.all([before, client.metrics().then(workOf)]);
      this.shares = timeShares(start, now, this.finished - this.started);
    } catch (error) {
      end = this.endOf(error);
    }
    this.ended = true;
    this.events.end({ ...this.texts(), ...end, stats: this.stats() });
  }

  private endOf(error: unknown): Partial<Message> {
    const empty = !this.content && !this.reasoning;
    if (this.abort.signal.aborted) return { status: 'stopped', failure: undefined };
    const failure =
      error instanceof ApiError
        ? { kind: error.kind, message: error.message, retryAfter: error.retryAfter }
        : { kind: 'server', message: String((error as Error | null)?.message ?? error) };
    const status: Status = empty ? 'failed' : 'cut';
    return { status, failure };
  }

  private enter(phase: Phase): void {
    this.phase = phase;
    this.show();
  }

  private take(reasoning: string, content: string): void {
    const now = performance.now();
    this.firstToken ??= now;
    ++this.pieces;
    if (reasoning) {
      this.reasoning += reasoning;
      this.phase = 'thinking';
    }
    if (content) {
      if (this.phase !== 'answering') this.thoughtEnd = now;
      this.content += content;
      this.phase = 'answering';
    }
    this.show();
  }

  private show(): void {
    if (this.framed) return;
    this.framed = true;
    nextFrame(() => {
      this.framed = false;
      if (!this.ended) this.events.progress({ ...this.texts(), stats: this.stats() });
    });
  }

  private texts(): Partial<Message> {
    return { reasoning: this.reasoning, content: this.content };
  }

  private stats(): Stats {
    const now = this.finished ?? performance.now();
    const { firstToken, usage } = this;
    const tokens = usage?.completion_tokens ?? this.pieces;
    const seconds = firstToken === undefined ? 0 : (now - firstToken) / 1000;
    const stats: Stats = {
      totalMs: now - this.started,
      answerTokens: tokens,
      promptTokens: usage?.prompt_tokens,
      cachedTokens: usage?.prompt_tokens_details?.cached_tokens,
      thoughtTokens: usage?.completion_tokens_details?.reasoning_tokens,
      rate: tokens > 1 && seconds > 0.05 ? (tokens - 1) / seconds : undefined,
    };
    if (firstToken !== undefined) stats.firstTokenMs = firstToken - this.started;
    if (this.reasoning) {
      stats.thoughtMs = this.thoughtBefore + (firstToken === undefined ? 0 : (this.thoughtEnd ?? now) - firstToken);
    }
    return { ...stats, ...this.shares };
  }
}
