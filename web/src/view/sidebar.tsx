import { useEffect, useRef, useState } from 'preact/hooks';
import type { Head } from '../state/conversation';
import { exportJson, exportMarkdown, fileName } from '../state/export';
import type { Store, Theme } from '../state/store';
import { download } from './download';
import { Icon, IconButton } from './icons';

const dayMs = 86_400_000;

function ageOf(head: Head, now: number): string {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  if (head.updated >= midnight) return 'Today';
  if (head.updated >= midnight - dayMs) return 'Yesterday';
  if (head.updated >= midnight - 7 * dayMs) return 'Last seven days';
  return 'Earlier';
}

interface RowProps {
  store: Store;
  head: Head;
  open: boolean;
  menu: boolean;
  onOpen: () => void;
  onMenu: (shown: boolean) => void;
}

function Row({ store, head, open, menu, onOpen, onMenu }: RowProps) {
  const [renaming, setRenaming] = useState(false);
  const [sure, setSure] = useState(false);
  const row = useRef<HTMLLIElement>(null);
  const title = head.title || 'New chat';

  useEffect(() => {
    if (!menu) return setSure(false);
    row.current?.querySelector<HTMLElement>('.menu button')?.focus();
    const outside = (event: Event) => {
      if (!row.current?.contains(event.target as Node)) onMenu(false);
    };
    addEventListener('pointerdown', outside);
    return () => removeEventListener('pointerdown', outside);
  }, [menu]);

  const save = async (kind: 'json' | 'md') => {
    onMenu(false);
    const conversation = await store.byId(head.id);
    if (!conversation) return;
    const text = kind === 'json' ? exportJson([conversation]) : exportMarkdown(conversation);
    download(fileName(title, kind), text, kind === 'json' ? 'application/json' : 'text/markdown');
  };
  const back = () => {
    onMenu(false);
    row.current?.querySelector<HTMLElement>('.more')?.focus();
  };

  if (renaming) {
    const finish = (value: string) => {
      setRenaming(false);
      void store.rename(head.id, value);
    };
    return (
      <li>
        <input
          class="rename"
          aria-label="New name"
          value={title}
          ref={(element) => {
            if (!element || document.activeElement === element) return;
            element.focus();
            element.select();
          }}
          onBlur={(event) => finish(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter') finish(event.currentTarget.value);
            if (event.key === 'Escape') {
              event.stopPropagation();
              setRenaming(false);
            }
          }}
        />
      </li>
    );
  }
  return (
    <li ref={row} class={open ? 'open' : ''}>
      <button type="button" class="conversation" aria-current={open ? 'true' : undefined} title={title} onClick={onOpen}>
        {store.isRunning(head.id) && <span class="pulse" aria-label="being answered" />}
        <span class="title">{title}</span>
      </button>
      <IconButton icon="more" class="more" label={`More for ${title}`} expanded={menu} onClick={() => onMenu(!menu)} />
      {menu && (
        <div
          class="menu"
          role="group"
          aria-label={`More for ${title}`}
          onKeyDown={(event) => {
            if (event.key !== 'Escape') return;
            event.stopPropagation();
            back();
          }}
        >
          <button type="button" onClick={() => (onMenu(false), setRenaming(true))}>Rename</button>
          <button type="button" onClick={() => void save('md')}>Save as Markdown</button>
          <button type="button" onClick={() => void save('json')}>Save as JSON</button>
          <button type="button" class="danger" onClick={() => (sure ? void store.remove(head.id) : setSure(true))}>
            {sure ? 'Delete for good?' : 'Delete'}
          </button>
        </div>
      )}
    </li>
  );
}

const themes: [Theme, string, 'half' | 'sun' | 'moon'][] = [
  ['system', 'As the system', 'half'],
  ['light', 'Light', 'sun'],
  ['dark', 'Dark', 'moon'],
];

interface SidebarProps {
  store: Store;
  open: boolean;
  onFresh: () => void;
  onOpen: (id: string) => void;
  onClose: () => void;
}

export function Sidebar({ store, open, onFresh, onOpen, onClose }: SidebarProps) {
  const [menu, setMenu] = useState('');
  const list = useRef<HTMLDivElement>(null);
  if (!open) return null;
  const now = Date.now();
  const ages: [string, Head[]][] = [];
  for (const head of store.heads) {
    const age = ageOf(head, now);
    const last = ages[ages.length - 1];
    if (last && last[0] === age) last[1].push(head);
    else ages.push([age, [head]]);
  }
  const onArrow = (event: KeyboardEvent) => {
    if (event.altKey || (event.key !== 'ArrowDown' && event.key !== 'ArrowUp')) return;
    const rows = [...(list.current?.querySelectorAll<HTMLElement>('.conversation') ?? [])];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    if (at < 0) return;
    event.preventDefault();
    rows[Math.min(rows.length - 1, Math.max(0, at + (event.key === 'ArrowDown' ? 1 : -1)))]?.focus();
  };
  return (
    <>
      <nav class="sidebar" aria-label="Conversations">
        <div class="sidebar-top">
          <span class="brand">Fathom</span>
          <IconButton icon="close" class="phone-only" label="Close" onClick={onClose} />
        </div>
        <button type="button" class="fresh" onClick={onFresh} title="New chat (Ctrl+K)">
          <Icon name="plus" /> New chat
        </button>
        <div class="conversations" ref={list} onKeyDown={onArrow}>
          {store.heads.length === 0 && <p class="none">Conversations appear here. They are kept in this browser alone.</p>}
          {ages.map(([age, heads]) => (
            <section key={age}>
              <h2>{age}</h2>
              <ul>
                {heads.map((head) => (
                  <Row
                    key={head.id}
                    store={store}
                    head={head}
                    open={head.id === store.conversation.id}
                    menu={menu === head.id}
                    onOpen={() => onOpen(head.id)}
                    onMenu={(shown) => setMenu(shown ? head.id : '')}
                  />
                ))}
              </ul>
            </section>
          ))}
        </div>
        <div class="themes" role="radiogroup" aria-label="Colours">
          {themes.map(([theme, label, icon]) => (
            <button
              key={theme}
              type="button"
              role="radio"
              aria-checked={store.theme === theme}
              aria-label={label}
              title={label}
              onClick={() => store.setTheme(theme)}
            >
              <Icon name={icon} />
            </button>
          ))}
        </div>
      </nav>
      <div class="shade" onClick={onClose} />
    </>
  );
}
