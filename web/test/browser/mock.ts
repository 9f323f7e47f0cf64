// A server that answers as a test tells it to, and serves the page as the program does.
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

declare global {
  interface ImportMeta {
    web: string;
  }
}

const built = join(import.meta.web, '../build/web/page');

export interface Asked {
  model: string;
  messages: { role: string; content: string; reasoning_content?: string }[];
  [name: string]: unknown;
}

/** What an answer to /v1/chat/completions is written with. */
export class Reply {
  gone = false; // the browser has closed the connection
  private started = false;
  constructor(readonly response: ServerResponse) {
    response.on('close', () => (this.gone = true));
  }
  /** An answer without a stream. */
  error(status: number, code: string, message: string, headers: Record<string, string> = {}): void {
    this.response.writeHead(status, { 'content-type': 'application/json', ...headers });
    this.response.end(JSON.stringify({ error: { message, type: 'invalid_request_error', param: null, code } }));
  }
  open(): void {
    if (this.started) return;
    this.started = true;
    this.response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    this.chunk({ role: 'assistant' });
  }
  raw(text: string | Uint8Array): void {
    this.response.write(text);
  }
  chunk(delta: object, finish: string | null = null): void {
    const chunk = { id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'demo', choices: [{ index: 0, delta, finish_reason: finish }] };
    this.raw(`data: ${JSON.stringify(chunk)}\n\n`);
  }
  thought(text: string): void {
    this.open();
    this.chunk({ reasoning_content: text });
  }
  text(text: string): void {
    this.open();
    this.chunk({ content: text });
  }
  end(finish = 'stop', completion = 20, reasoning = 8): void {
    this.open();
    this.chunk({}, finish);
    const usage = { prompt_tokens: 12, completion_tokens: completion, total_tokens: 12 + completion, completion_tokens_details: { reasoning_tokens: reasoning } };
    this.raw(`data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'demo', choices: [], usage })}\n\n`);
    this.raw('data: [DONE]\n\n');
    this.response.end();
  }
  /** The connection ends as if the server had died. */
  cut(): void {
    this.response.destroy();
  }
}

export type Script = (reply: Reply, asked: Asked) => void | Promise<void>;

/** Thought and answer, then the end. */
export const says =
  (thought: string, answer: string): Script =>
  (reply) => {
    if (thought) reply.thought(thought);
    reply.text(answer);
    reply.end();
  };

export class Mock {
  readonly asked: Asked[] = [];
  readonly headers: IncomingMessage['headers'][] = [];
  script: Script = says('', 'Hello.');
  key = ''; // asked for where it is not empty
  models: unknown[] | number = [{ id: 'demo', object: 'model' }]; // a number: this status
  metrics = 'vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n'; // '' for a server without
  private readonly server = createServer((request, response) => void this.answer(request, response));
  port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  async start(port = 0): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(port, '127.0.0.1', resolve));
    this.port = (this.server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').split('?')[0];
    if (path === '/') {
      response.writeHead(200, {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': readFileSync(join(built, 'csp.txt'), 'utf8'),
        'x-content-type-options': 'nosniff',
        'cache-control': 'no-store',
      });
      response.end(readFileSync(join(built, 'index.html')));
      return;
    }
    const reply = new Reply(response);
    if (this.key && request.headers.authorization !== `Bearer ${this.key}`) {
      return reply.error(401, 'invalid_api_key', 'A key is needed: Authorization: Bearer KEY');
    }
    if (path === '/v1/models') {
      if (typeof this.models === 'number') return reply.error(this.models, 'loading', 'The model is loading.');
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ object: 'list', data: this.models }));
    } else if (path === '/metrics') {
      response.writeHead(this.metrics ? 200 : 404, { 'content-type': 'text/plain' });
      response.end(this.metrics);
    } else if (path === '/v1/chat/completions') {
      let body = '';
      for await (const part of request) body += String(part);
      const asked = JSON.parse(body) as Asked;
      this.asked.push(asked);
      this.headers.push(request.headers);
      await this.script(reply, asked);
    } else {
      reply.error(404, 'not_found', 'There is nothing here.');
    }
  }
}
