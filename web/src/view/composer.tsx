import { forwardRef } from 'preact/compat';
import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { isRecommended } from '../state/settings';
import type { Store } from '../state/store';
import { Icon } from './icons';

export interface ComposerHandle {
  focus(): void;
  put(text: string): void;
}

/** On a phone's keyboard Enter makes a line; the button sends. */
const touch = () => matchMedia('(pointer: coarse)').matches;

export const Composer = forwardRef<ComposerHandle, { store: Store; onSettings: () => void }>(({ store, onSettings }, ref) => {
  const area = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState('');
  const drafts = useRef(new Map<string, string>());
  const { id } = store.conversation;
  const running = store.run !== undefined;

  // Each conversation keeps its own unsent words.
  useEffect(() => {
    setText(drafts.current.get(id) ?? '');
    if (!touch()) area.current?.focus();
  }, [id]);
  const change = (value: string) => {
    drafts.current.set(id, value);
    setText(value);
  };
  useImperativeHandle(ref, () => ({
    focus: () => area.current?.focus(),
    put: (value: string) => {
      change(value);
      area.current?.focus();
    },
  }));
  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = 'auto';
    element.style.height = `${Math.min(element.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);

  const send = () => {
    if (running || !text.trim()) return;
    store.send(text);
    change('');
  };

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <div class="composer-box">
        <textarea
          ref={area}
          rows={1}
          value={text}
          placeholder="Ask anything"
          aria-label="Your question"
          enterkeyhint={touch() ? 'enter' : 'send'}
          onInput={(event) => change(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && !touch()) {
              event.preventDefault();
              send();
            } else if (event.key === 'ArrowUp' && !text && !event.altKey) {
              const edits = document.querySelectorAll<HTMLButtonElement>('.edit-question:not(:disabled)');
              const last = edits[edits.length - 1];
              if (last) {
                event.preventDefault();
                last.click();
              }
            }
          }}
        />
        {running ? (
          <button type="button" class="send stop" aria-label="Stop" title="Stop (Esc)" onClick={() => store.stop()}>
            <Icon name="stop" />
          </button>
        ) : (
          <button type="submit" class="send" aria-label="Send" title="Send (Enter)" disabled={!text.trim()}>
            <Icon name="send" />
          </button>
        )}
      </div>
      <p class="composer-note">
        {isRecommended(store.settings) ? (
          'A model can be wrong: check what matters.'
        ) : (
          <button type="button" class="quiet" onClick={onSettings}>Settings differ from the recommended ones</button>
        )}
      </p>
    </form>
  );
});
