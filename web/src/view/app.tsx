import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks';
import { pathOf } from '../state/conversation';
import type { Store, Theme } from '../state/store';
import { Composer, type ComposerHandle } from './composer';
import { IconButton } from './icons';
import { KeyDialog } from './key_dialog';
import { SettingsDialog } from './settings_dialog';
import { Sidebar } from './sidebar';
import { Thread } from './thread';

const narrow = () => matchMedia('(max-width: 760px)').matches;

function useStore(store: Store): void {
  const [, again] = useReducer((n: number) => n + 1, 0);
  useEffect(() => store.subscribe(() => again(undefined)), [store]);
}

/** Puts the theme on the page, and follows the system where a person leaves it to that. */
function useTheme(theme: Theme): void {
  useLayoutEffect(() => {
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const put = () => {
      const shown = theme === 'system' ? (dark.matches ? 'dark' : 'light') : theme;
      document.documentElement.dataset.theme = shown;
    };
    put();
    dark.addEventListener('change', put);
    return () => dark.removeEventListener('change', put);
  }, [theme]);
}

/** What a screen reader says, once per change of state and not once per word. */
function Announcer({ store }: { store: Store }) {
  const phase = store.run?.phase;
  const before = useRef<string | undefined>(undefined);
  const words = useRef('');
  if (before.current !== phase) {
    const path = pathOf(store.conversation);
    const last = path[path.length - 1];
    if (phase === 'reading') words.current = 'Reading your question';
    else if (phase === 'thinking') words.current = 'Thinking';
    else if (phase === 'answering') words.current = 'Answering';
    else if (!phase && before.current) words.current = last?.failure ? '' : last?.status === 'stopped' ? 'Stopped' : 'Answer finished';
    before.current = phase;
  }
  return (
    <div class="off-screen" role="status" aria-live="polite">
      {words.current}
    </div>
  );
}

function ServerBanner({ store }: { store: Store }) {
  if (store.server === 'gone') {
    return (
      <div class="banner bad" role="alert">
        The server does not answer. <button type="button" onClick={() => void store.look()}>Look again</button>
      </div>
    );
  }
  if (store.server === 'loading') return <div class="banner" role="status">The model is being loaded…</div>;
  return null;
}

export function App({ store }: { store: Store }) {
  useStore(store);
  const [sidebar, setSidebar] = useState(!narrow());
  const [settings, setSettings] = useState(false);
  const composer = useRef<ComposerHandle>(null);

  useTheme(store.theme);
  useEffect(() => {
    const name = store.conversation.title;
    document.title = name ? `${name} · Fathom` : 'Fathom';
  }, [store.conversation.title]);

  const startFresh = () => {
    store.fresh();
    if (narrow()) setSidebar(false);
    composer.current?.focus();
  };

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (document.querySelector('dialog[open]')) return;
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        startFresh();
      } else if (event.key === 'Escape') {
        if (store.run) store.stop();
        else if (narrow()) setSidebar(false);
      } else if (event.altKey && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
        const at = store.heads.findIndex((head) => head.id === store.conversation.id);
        const next = store.heads[Math.max(0, at + (event.key === 'ArrowUp' ? -1 : 1))];
        event.preventDefault();
        if (next) void store.open(next.id);
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [store]);

  return (
    <div class={`app ${sidebar ? 'with-sidebar' : ''}`}>
      <Sidebar
        store={store}
        open={sidebar}
        onFresh={startFresh}
        onOpen={(id) => {
          void store.open(id);
          if (narrow()) setSidebar(false);
        }}
        onClose={() => setSidebar(false)}
      />
      <main>
        <header>
          <IconButton icon="menu" label={sidebar ? 'Hide conversations' : 'Show conversations'} expanded={sidebar} onClick={() => setSidebar(!sidebar)} />
          <h1>{store.conversation.title || 'New chat'}</h1>
          <span class="model" title="The model that answers">{store.model}</span>
          <IconButton icon="plus" class="phone-only" label="New chat" onClick={startFresh} />
          <IconButton icon="sliders" label="Settings" onClick={() => setSettings(true)} />
        </header>
        <ServerBanner store={store} />
        {!store.lasting && (
          <div class="banner">This browser keeps nothing for this page: conversations are gone with the window.</div>
        )}
        {store.notice && (
          <div class="banner bad" role="alert">
            {store.notice} <button type="button" onClick={() => store.dismissNotice()}>Dismiss</button>
          </div>
        )}
        <Thread store={store} onTry={(text) => composer.current?.put(text)} />
        <Composer ref={composer} store={store} onSettings={() => setSettings(true)} />
      </main>
      <Announcer store={store} />
      {settings && <SettingsDialog store={store} onClose={() => setSettings(false)} />}
      {store.server === 'key' && <KeyDialog store={store} />}
    </div>
  );
}
