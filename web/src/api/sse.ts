// Server-sent events out of bytes as they come: cut anywhere, also inside a character or a line end.

export interface SseHandlers {
  event(data: string, name: string): void;
  /** Lines that begin with a colon; servers send them to keep a connection alive. */
  comment?(text: string): void;
}

export class SseParser {
  private readonly decoder = new TextDecoder('utf-8');
  private line = '';
  private data: string[] = [];
  private name = '';
  private afterCr = false; // a line feed that comes next belongs to the carriage return before it

  constructor(private readonly handlers: SseHandlers) {}

  feed(bytes: Uint8Array): void {
    this.take(this.decoder.decode(bytes, { stream: true }));
  }

  /** The connection has ended: an event without its blank line is not one. */
  end(): void {
    this.take(this.decoder.decode());
    this.line = '';
    this.data = [];
    this.name = '';
  }

  private take(text: string): void {
    let from = 0;
    for (let i = 0; i < text.length; ++i) {
      const c = text.charCodeAt(i);
      if (c === 10 && this.afterCr) {
        this.afterCr = false;
        from = i + 1;
        continue;
      }
      this.afterCr = false;
      if (c !== 10 && c !== 13) continue;
      const line = this.line + text.slice(from, i);
      this.line = '';
      from = i + 1;
      this.afterCr = c === 13;
      this.takeLine(line);
    }
    this.line += text.slice(from);
  }

  private takeLine(line: string): void {
    if (line === '') {
      if (this.data.length > 0) this.handlers.event(this.data.join('\n'), this.name || 'message');
      this.data = [];
      this.name = '';
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) {
      this.handlers.comment?.(line.slice(line[1] === ' ' ? 2 : 1));
      return;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    const rest = colon < 0 ? '' : line.slice(colon + 1);
    const value = rest.startsWith(' ') ? rest.slice(1) : rest;
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.name = value;
  }
}
