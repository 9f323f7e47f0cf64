// Where conversations live: the browser's IndexedDB, or memory alone where a browser gives none.
import { type Conversation, checkedConversation, type Head } from './conversation';

export class StorageError extends Error {
  constructor(
    readonly full: boolean,
    message: string,
  ) {
    super(message);
  }
}

export interface Shelf {
  /** False where a reload loses everything. */
  readonly lasting: boolean;
  heads(): Promise<Head[]>;
  get(id: string): Promise<Conversation | undefined>;
  put(conversation: Conversation): Promise<void>;
  remove(id: string): Promise<void>;
}

export class MemoryShelf implements Shelf {
  readonly lasting = false;
  private readonly all = new Map<string, Conversation>();
  heads(): Promise<Head[]> {
    return Promise.resolve([...this.all.values()].map(headOf));
  }
  get(id: string): Promise<Conversation | undefined> {
    return Promise.resolve(this.all.get(id));
  }
  put(conversation: Conversation): Promise<void> {
    this.all.set(conversation.id, conversation);
    return Promise.resolve();
  }
  remove(id: string): Promise<void> {
    this.all.delete(id);
    return Promise.resolve();
  }
}

export const headOf = ({ id, title, created, updated }: Conversation): Head => ({ id, title, created, updated });

function storageError(error: unknown): StorageError {
  const name = (error as { name?: string } | null)?.name ?? '';
  return name === 'QuotaExceededError'
    ? new StorageError(true, 'The browser has no room left for conversations. Export and delete some.')
    : new StorageError(false, 'The browser could not store the conversation.');
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(storageError(request.error));
  });
}

function finished(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = () => reject(storageError(transaction.error));
    transaction.onabort = () => reject(storageError(transaction.error));
  });
}

// The list is read without reading the conversations themselves.
class DatabaseShelf implements Shelf {
  readonly lasting = true;
  constructor(private readonly db: IDBDatabase) {}

  heads(): Promise<Head[]> {
    return settled(this.db.transaction('heads').objectStore('heads').getAll() as IDBRequest<Head[]>);
  }
  async get(id: string): Promise<Conversation | undefined> {
    return checkedConversation(await settled(this.db.transaction('bodies').objectStore('bodies').get(id) as IDBRequest<unknown>));
  }
  put(conversation: Conversation): Promise<void> {
    return this.write((heads, bodies) => {
      heads.put(headOf(conversation));
      bodies.put(conversation);
    });
  }
  remove(id: string): Promise<void> {
    return this.write((heads, bodies) => {
      heads.delete(id);
      bodies.delete(id);
    });
  }

  private write(work: (heads: IDBObjectStore, bodies: IDBObjectStore) => void): Promise<void> {
    try {
      const transaction = this.db.transaction(['heads', 'bodies'], 'readwrite');
      work(transaction.objectStore('heads'), transaction.objectStore('bodies'));
      return finished(transaction);
    } catch (error) {
      return Promise.reject(storageError(error));
    }
  }
}

export async function openShelf(): Promise<Shelf> {
  try {
    const request = indexedDB.open('fathom', 1);
    request.onupgradeneeded = () => {
      for (const name of ['heads', 'bodies']) request.result.createObjectStore(name, { keyPath: 'id' });
    };
    const db = await settled(request);
    db.onversionchange = () => db.close();
    return new DatabaseShelf(db);
  } catch {
    return new MemoryShelf();
  }
}

/** Small things (settings, the theme); a browser that refuses them only forgets. */
export function remember(name: string, value: unknown, store: () => Storage = () => localStorage): void {
  try {
    if (value === undefined) store().removeItem(`fathom.${name}`);
    else store().setItem(`fathom.${name}`, JSON.stringify(value));
  } catch {
    // Private windows and full disks: nothing depends on it.
  }
}

export function recall(name: string, store: () => Storage = () => localStorage): unknown {
  try {
    return JSON.parse(store().getItem(`fathom.${name}`) ?? 'null');
  } catch {
    return null;
  }
}
