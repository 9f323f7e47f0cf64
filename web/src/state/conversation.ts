// A conversation is a tree: editing a question or asking again opens a branch beside what was there.

export type Role = 'user' | 'assistant';
export type Status =
  | 'done'
  | 'streaming'
  | 'stopped' // by the person
  | 'cut' // by a connection that ended, or a page that was closed
  | 'length' // by max_tokens or the context
  | 'failed'; // nothing came

export interface Stats {
  firstTokenMs?: number;
  thoughtMs?: number;
  totalMs?: number;
  promptTokens?: number;
  cachedTokens?: number;
  answerTokens?: number; // thought included
  thoughtTokens?: number;
  /** Tokens per second after the first. */
  rate?: number;
  /** Shares of the time, where the server tells them. */
  diskShare?: number;
  computeShare?: number;
}

export interface Failure {
  kind: string;
  message: string;
  retryAfter?: number;
}

export interface Message {
  readonly id: string;
  readonly parent: string; // '' for the first
  readonly role: Role;
  readonly content: string;
  readonly reasoning: string;
  readonly status: Status;
  readonly created: number;
  readonly model?: string;
  readonly failure?: Failure;
  readonly stats?: Stats;
}

export interface Conversation {
  readonly id: string;
  readonly title: string;
  readonly created: number;
  readonly updated: number;
  readonly system: string;
  /** In the order in which they were made. */
  readonly messages: Readonly<Record<string, Message>>;
  /** Which child of a message is shown, by the parent's id. */
  readonly chosen: Readonly<Record<string, string>>;
}

/** What the list of conversations needs. */
export type Head = Pick<Conversation, 'id' | 'title' | 'created' | 'updated'>;

/** Not crypto.randomUUID: a page served over plain HTTP to another machine has none. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return 'm' + Array.from(bytes, (byte) => byte.toString(36).padStart(2, '0')).join('');
}

export function newConversation(now: number): Conversation {
  return { id: newId(), title: '', created: now, updated: now, system: '', messages: {}, chosen: {} };
}

export function childrenOf(conversation: Conversation, parent: string): Message[] {
  return Object.values(conversation.messages).filter((message) => message.parent === parent);
}

/** The messages that are shown, first to last. */
export function pathOf(conversation: Conversation): Message[] {
  const children = new Map<string, Message[]>();
  for (const message of Object.values(conversation.messages)) {
    const list = children.get(message.parent);
    if (list) list.push(message);
    else children.set(message.parent, [message]);
  }
  const path: Message[] = [];
  let parent = '';
  for (;;) {
    const list = children.get(parent);
    if (!list) return path;
    const chosen = list.find((message) => message.id === conversation.chosen[parent]) ?? list[list.length - 1];
    if (!chosen || path.includes(chosen)) return path;
    path.push(chosen);
    parent = chosen.id;
  }
}

export function withMessage(conversation: Conversation, message: Message): Conversation {
  return {
    ...conversation,
    updated: Math.max(conversation.updated, message.created),
    messages: { ...conversation.messages, [message.id]: message },
    chosen: { ...conversation.chosen, [message.parent]: message.id },
  };
}

export function changed(conversation: Conversation, id: string, change: Partial<Message>): Conversation {
  const message = conversation.messages[id];
  if (!message) return conversation;
  return { ...conversation, messages: { ...conversation.messages, [id]: { ...message, ...change } } };
}

export function choose(conversation: Conversation, message: Message): Conversation {
  return { ...conversation, chosen: { ...conversation.chosen, [message.parent]: message.id } };
}

/** Removes a message and all that follows it. */
export function without(conversation: Conversation, id: string): Conversation {
  const messages = { ...conversation.messages };
  const chosen = { ...conversation.chosen };
  const gone = [id];
  for (let next = gone.pop(); next !== undefined; next = gone.pop()) {
    for (const message of Object.values(messages)) {
      if (message.parent === next) gone.push(message.id);
    }
    delete messages[next];
    delete chosen[next];
    for (const [parent, child] of Object.entries(chosen)) if (child === next) delete chosen[parent];
  }
  return { ...conversation, messages, chosen };
}

/** A title from the first question: its first line, cut at a word. */
export function titleFrom(text: string): string {
  const line = text.trim().split('\n')[0]?.replace(/\s+/g, ' ') ?? '';
  if (line.length <= 48) return line;
  const cut = line.slice(0, 48);
  const space = cut.lastIndexOf(' ');
  return (space > 24 ? cut.slice(0, space) : cut) + '…';
}

/** A conversation from what was stored or imported, or nothing where it is no such thing. */
export function checkedConversation(value: unknown): Conversation | undefined {
  const from = value as Partial<Conversation> | null;
  if (typeof from !== 'object' || from === null || typeof from.id !== 'string') return undefined;
  if (typeof from.messages !== 'object' || from.messages === null) return undefined;
  const messages: Record<string, Message> = {};
  for (const message of Object.values(from.messages)) {
    if (typeof message?.id !== 'string' || typeof message.parent !== 'string') return undefined;
    if (message.role !== 'user' && message.role !== 'assistant') return undefined;
    if (typeof message.content !== 'string' || typeof message.reasoning !== 'string') return undefined;
    // Whoever was writing it is gone.
    messages[message.id] = message.status === 'streaming' ? { ...message, status: 'cut' } : message;
  }
  const created = Number(from.created) || 0;
  return {
    id: from.id,
    title: String(from.title ?? ''),
    created,
    updated: Number(from.updated) || created,
    system: String(from.system ?? ''),
    messages,
    chosen: { ...from.chosen },
  };
}
