// The part of the OpenAI API that a chat needs.
import { ApiError, errorBody, errorOf } from './errors';
import { SseParser } from './sse';

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
  reasoning_content?: string;
}

export interface ChatRequest {
  model: string;
  messages: ChatMessage[];
  [setting: string]: unknown;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  completion_tokens_details?: { reasoning_tokens?: number };
  prompt_tokens_details?: { cached_tokens?: number };
}

export interface StreamHandlers {
  /** The server has taken the request. */
  opened(): void;
  comment(text: string): void;
  delta(reasoning: string, content: string): void;
  finish(reason: string): void;
  usage(usage: Usage): void;
}

export class Client {
  private hasMetrics = true;

  constructor(public key: string) {}

  private async ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.key) headers.set('authorization', `Bearer ${this.key}`);
    let response: Response;
    try {
      // Beside the page, so that a proxy may serve both below a path of its own.
      response = await fetch(new URL(path, document.baseURI), { ...init, headers, cache: 'no-store' });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw new ApiError('gone', 'The server does not answer.');
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  async models(): Promise<string[]> {
    const body = (await (await this.ask('v1/models')).json()) as { data?: { id?: unknown }[] };
    return (body.data ?? []).map((model) => String(model.id ?? '')).filter(Boolean);
  }

  /** "" where the server has none, or keeps them to itself: then it is not asked again. */
  async metrics(): Promise<string> {
    if (!this.hasMetrics) return '';
    try {
      return await (await this.ask('metrics')).text();
    } catch (error) {
      this.hasMetrics = error instanceof ApiError && (error.kind === 'gone' || error.kind === 'loading');
      return '';
    }
  }

  /** Returns when the answer is complete; throws an ApiError, or the signal's reason. */
  async chat(request: ChatRequest, signal: AbortSignal, handlers: StreamHandlers): Promise<void> {
    const response = await this.ask('v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
      signal,
    });
    handlers.opened();
    const cut = () => new ApiError('cut', 'The connection ended in the middle of the answer.');
    if (!response.body) throw cut();
    let done = false;
    const parser = new SseParser({
      comment: (text) => handlers.comment(text),
      event: (data) => {
        if (data === '[DONE]') done = true;
        else if (!done) takeChunk(data, handlers);
      },
    });
    const reader = response.body.getReader();
    try {
      for (;;) {
        const { value, done: ended } = await reader.read();
        if (ended) break;
        parser.feed(value);
        if (done) break;
      }
      parser.end();
    } catch (error) {
      if (signal.aborted || error instanceof ApiError) throw error;
      throw cut();
    } finally {
      void reader.cancel().catch(() => undefined);
    }
    if (!done) throw cut();
  }
}

interface Chunk {
  choices?: {
    delta?: { content?: string | null; reasoning_content?: string | null };
    finish_reason?: string | null;
  }[];
  usage?: Usage | null;
}

function takeChunk(data: string, handlers: StreamHandlers): void {
  let chunk: Chunk;
  try {
    chunk = JSON.parse(data) as Chunk;
  } catch {
    throw new ApiError('server', 'The server sent something that is no JSON.');
  }
  const error = errorBody(chunk);
  if (error) {
    throw new ApiError(error.code === 'context_length_exceeded' ? 'context' : 'server', error.message);
  }
  const choice = chunk.choices?.[0];
  const reasoning = choice?.delta?.reasoning_content ?? '';
  const content = choice?.delta?.content ?? '';
  if (reasoning || content) handlers.delta(reasoning, content);
  if (choice?.finish_reason) handlers.finish(choice.finish_reason);
  if (chunk.usage) handlers.usage(chunk.usage);
}
