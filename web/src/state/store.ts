// The page's state and everything that a person can do to it.
import { Client } from '../api/client';
import { ApiError } from '../api/errors';
import {
  changed,
  choose,
  type Conversation,
  type Head,
  type Message,
  newConversation,
  newId,
  pathOf,
  titleFrom,
  withMessage,
  without,
} from './conversation';
import { loadOf, type Load } from './metrics';
import { Run } from './run';
import { checkedSettings, type Settings } from './settings';
import { headOf, MemoryShelf, openShelf, recall, remember, type Shelf, StorageError } from './storage';

export type ServerState = 'unknown' | 'ready' | 'gone' | 'loading' | 'key';
export type Theme = 'system' | 'light' | 'dark';

const saveEveryMs = 2000;
const lookAgainMs = 4000;

export class Store {
  conversation: Conversation = newConversation(Date.now());
  heads: Head[] = [];
  settings: Settings = checkedSettings(recall('settings'));
  theme: Theme = (['light', 'dark'] as const).find((theme) => theme === recall('theme')) ?? 'system';
  server: ServerState = 'unknown';
  keyRefused = false; // the one that was typed in
  model = '';
  load: Load = {};
  notice = '';
  lasting = true;

  private readonly client = new Client(String(recall('key') ?? recall('key', () => sessionStorage) ?? ''));
  private shelf: Shelf = new MemoryShelf();
  private readonly runs = new Map<string, Run>();
  private readonly running = new Map<string, Conversation>(); // what runs write to, whatever is shown
  private readonly saves = new Map<string, number>(); // timers of what is to be saved
  private readonly listeners = new Set<() => void>();
  private readonly others = 'BroadcastChannel' in globalThis ? new BroadcastChannel('fathom') : undefined;
  private lookTimer = 0;

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }

  async start(): Promise<void> {
    this.shelf = await openShelf();
    this.lasting = this.shelf.lasting;
    await this.readHeads();
    const last = recall('open');
    if (typeof last === 'string' && this.heads.some((head) => head.id === last)) await this.open(last);
    this.others?.addEventListener('message', (event) => void this.otherTab(String(event.data)));
    addEventListener('pagehide', () => this.saveRunning());
    await this.look();
  }

  /** Asks the server who it is, again and again until it answers. */
  async look(): Promise<void> {
    clearTimeout(this.lookTimer);
    try {
      const models = await this.client.models();
      this.model = models[0] ?? '';
      this.server = 'ready';
    } catch (error) {
      const kind = error instanceof ApiError ? error.kind : 'gone';
      this.server = kind === 'key' || kind === 'loading' ? kind : 'gone';
      if (kind !== 'key') this.lookTimer = window.setTimeout(() => void this.look(), lookAgainMs);
    }
    this.tell();
  }

  // --- conversations

  private async readHeads(): Promise<void> {
    try {
      this.heads = (await this.shelf.heads()).sort((a, b) => b.updated - a.updated);
    } catch (error) {
      this.complain(error);
    }
    this.tell();
  }

  private async otherTab(id: string): Promise<void> {
    await this.readHeads();
    if (id !== this.conversation.id || this.runs.has(id)) return;
    const conversation = await this.shelf.get(id);
    if (conversation) this.conversation = conversation;
    else this.fresh();
    this.tell();
  }

  fresh(): void {
    this.conversation = newConversation(Date.now());
    remember('open', undefined);
    this.tell();
  }

  async open(id: string): Promise<void> {
    if (id === this.conversation.id) return;
    try {
      const conversation = this.running.get(id) ?? (await this.shelf.get(id));
      if (!conversation) return await this.readHeads();
      this.conversation = conversation;
      remember('open', id);
    } catch (error) {
      this.complain(error);
    }
    this.tell();
  }

  async rename(id: string, title: string): Promise<void> {
    const conversation = await this.byId(id);
    if (conversation && title.trim()) this.keep({ ...conversation, title: title.trim() });
  }

  async remove(id: string): Promise<void> {
    this.runs.get(id)?.stop();
    this.runs.delete(id);
    this.running.delete(id);
    try {
      await this.shelf.remove(id);
      this.others?.postMessage(id);
    } catch (error) {
      this.complain(error);
    }
    this.heads = this.heads.filter((head) => head.id !== id);
    if (this.conversation.id === id) this.fresh();
    this.tell();
  }

  async all(): Promise<Conversation[]> {
    const found: Conversation[] = [];
    for (const head of this.heads) {
      const conversation = await this.byId(head.id);
      if (conversation) found.push(conversation);
    }
    return found;
  }

  async byId(id: string): Promise<Conversation | undefined> {
    if (id === this.conversation.id) return this.conversation;
    return this.running.get(id) ?? (await this.shelf.get(id));
  }

  add(conversations: Conversation[]): void {
    for (const conversation of conversations) {
      const known = this.heads.some((head) => head.id === conversation.id);
      this.keep(known ? { ...conversation, id: newId() } : conversation);
    }
  }

  setSystem(system: string): void {
    if (system === this.conversation.system) return;
    const next = { ...this.conversation, system };
    if (this.heads.some((head) => head.id === next.id)) this.keep(next);
    else this.conversation = next; // kept with its first message
    this.tell();
  }

  show(message: Message): void {
    this.keep(choose(this.conversation, message));
  }

  // --- answers

  get run(): Run | undefined {
    return this.runs.get(this.conversation.id);
  }

  isRunning(id: string): boolean {
    return this.runs.has(id);
  }

  send(text: string): void {
    if (!text.trim() || this.run) return;
    const path = pathOf(this.conversation);
    this.question(path[path.length - 1]?.id ?? '', text);
  }

  /** A question in place of another one, which stays as a branch. */
  edit(message: Message, text: string): void {
    if (!text.trim() || this.run) return;
    this.question(message.parent, text);
  }

  private question(parent: string, text: string): void {
    const now = Date.now();
    const message: Message = { id: newId(), parent, role: 'user', content: text.trim(), reasoning: '', status: 'done', created: now };
    let next = withMessage(this.conversation, message);
    if (!next.title) next = { ...next, title: titleFrom(text) };
    this.answer(next, message.id);
  }

  /** Another answer to the same question; an answer that never came makes room. */
  again(message: Message): void {
    if (this.run) return;
    const empty = !message.content && !message.reasoning;
    this.answer(empty ? without(this.conversation, message.id) : this.conversation, message.parent);
  }

  goOn(message: Message): void {
    if (this.run) return;
    const change = { status: 'streaming', failure: undefined } as const;
    this.launch(changed(this.conversation, message.id, change), message.id, message);
  }

  private answer(conversation: Conversation, parent: string): void {
    const message: Message = {
      id: newId(),
      parent,
      role: 'assistant',
      content: '',
      reasoning: '',
      status: 'streaming',
      created: Date.now(),
      model: this.model || undefined,
    };
    this.launch(withMessage(conversation, message), message.id);
  }

  private launch(conversation: Conversation, messageId: string, unfinished?: Message): void {
    const { id } = conversation;
    const path = pathOf(conversation);
    const asking = {
      model: this.model,
      system: conversation.system,
      path: path.slice(0, path.findIndex((message) => message.id === messageId)),
      settings: this.settings,
      unfinished,
    };
    const update = (change: Partial<Message>) => {
      const now = this.running.get(id);
      return now && changed(now, messageId, change);
    };
    const run = new Run(messageId, asking, {
      progress: (change) => {
        const next = this.runs.get(id) === run ? update(change) : undefined;
        if (!next) return;
        this.running.set(id, next);
        if (id === this.conversation.id) this.conversation = next;
        this.saveSoon(id);
        this.tell();
      },
      end: (change) => {
        if (this.runs.get(id) !== run) return; // the conversation was deleted
        const next = update(change);
        this.runs.delete(id);
        this.running.delete(id);
        if (next) this.keep({ ...next, updated: Date.now() });
        const kind = change.failure?.kind;
        if (kind === 'key') this.server = 'key';
        if (kind === 'gone' || kind === 'cut') void this.look();
        this.tell();
      },
    });
    this.runs.set(id, run);
    this.running.set(id, conversation);
    remember('open', id);
    this.keep(conversation);
    void run.go(this.client);
    void this.watchQueue(run);
  }

  stop(): void {
    this.run?.stop();
  }

  /** While nothing comes: how many wait, so that a person knows what for. */
  private async watchQueue(run: Run): Promise<void> {
    const active = () => [...this.runs.values()].includes(run) && (run.phase === 'sending' || run.phase === 'reading');
    this.load = {};
    for (let wait = 1500; ; wait = 3000) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      if (!active()) return;
      this.load = loadOf(await this.client.metrics());
      this.tell();
    }
  }

  // --- settings

  setSettings(settings: Settings): void {
    this.settings = settings;
    remember('settings', settings);
    this.tell();
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    remember('theme', theme === 'system' ? undefined : theme);
    this.tell();
  }

  setKey(key: string, keep: boolean): void {
    this.client.key = key;
    remember('key', keep && key ? key : undefined);
    remember('key', !keep && key ? key : undefined, () => sessionStorage);
    void this.look().then(() => {
      this.keyRefused = this.server === 'key';
      this.tell();
      if (this.server !== 'ready') return;
      const path = pathOf(this.conversation);
      const last = path[path.length - 1];
      if (last?.failure?.kind === 'key') this.again(last);
    });
  }

  dismissNotice(): void {
    this.notice = '';
    this.tell();
  }

  // --- storing

  private keep(conversation: Conversation): void {
    if (conversation.id === this.conversation.id) this.conversation = conversation;
    if (this.running.has(conversation.id)) this.running.set(conversation.id, conversation);
    this.heads = [headOf(conversation), ...this.heads.filter((head) => head.id !== conversation.id)].sort(
      (a, b) => b.updated - a.updated,
    );
    void this.save(conversation);
    this.tell();
  }

  private async save(conversation: Conversation): Promise<void> {
    clearTimeout(this.saves.get(conversation.id));
    this.saves.delete(conversation.id);
    try {
      await this.shelf.put(conversation);
      this.others?.postMessage(conversation.id);
    } catch (error) {
      this.complain(error);
    }
  }

  private saveSoon(id: string): void {
    if (this.saves.has(id)) return;
    const work = () => {
      this.saves.delete(id);
      const conversation = this.running.get(id);
      if (conversation) void this.save(conversation);
    };
    this.saves.set(id, window.setTimeout(work, saveEveryMs));
  }

  private saveRunning(): void {
    for (const conversation of this.running.values()) void this.save(conversation);
  }

  private complain(error: unknown): void {
    this.notice = error instanceof StorageError ? error.message : String(error);
    this.tell();
  }
}
