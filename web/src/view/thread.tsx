import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { childrenOf, pathOf } from '../state/conversation';
import type { Store } from '../state/store';
import { IconButton } from './icons';
import { MessageView } from './message';

const examples = [
  'What is 47+85?',
  'Explain why the sum of the first n odd numbers is n².',
  'Write a C++ function that finds the longest word in a text.',
];

function Welcome({ onTry }: { onTry: (text: string) => void }) {
  return (
    <section class="welcome">
      <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
        <path d="M6 10q5-4.5 10 0t10 0M6 16.5q5-4.5 10 0t10 0M6 23q5-4.5 10 0t10 0" />
      </svg>
      <h2>What would you like to know?</h2>
      <p>The model thinks first; you can read along. Conversations stay in this browser.</p>
      <ul>
        {examples.map((example) => (
          <li key={example}>
            <button type="button" onClick={() => onTry(example)}>{example}</button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Stays at the end while the answer grows, unless a person has scrolled away from it. */
export function Thread({ store, onTry }: { store: Store; onTry: (text: string) => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const lastTop = useRef(0);
  const [away, setAway] = useState(false);
  const path = pathOf(store.conversation);
  const run = store.run;

  const toEnd = () => {
    const element = scroller.current;
    if (!element) return;
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  };
  const follow = () => {
    following.current = true;
    setAway(false);
    toEnd();
  };
  useLayoutEffect(() => {
    if (following.current) toEnd();
  });
  useLayoutEffect(follow, [store.conversation.id, run?.messageId]);
  useEffect(() => {
    // What settles late (a formula, the phone's keyboard) moves the end as well.
    const element = scroller.current;
    if (!element || !('ResizeObserver' in globalThis)) return;
    const observer = new ResizeObserver(() => following.current && toEnd());
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    const gap = element.scrollHeight - element.scrollTop - element.clientHeight;
    // Only a movement upwards leaves the end: text that grows below moves nothing.
    if (gap < 40) following.current = true;
    else if (element.scrollTop < lastTop.current - 2) following.current = false;
    lastTop.current = element.scrollTop;
    setAway(!following.current);
  };

  return (
    <div class="thread-frame">
      <div class="thread" ref={scroller} onScroll={onScroll}>
        <div class="column" role="log" aria-live="off" aria-label="Conversation">
          {path.length === 0 && <Welcome onTry={onTry} />}
          {store.conversation.system && path.length > 0 && (
            <details class="system-note">
              <summary>With a system prompt</summary>
              <p>{store.conversation.system}</p>
            </details>
          )}
          {path.map((message, i) => {
            const own = run?.messageId === message.id;
            return (
              <MessageView
                key={message.id}
                store={store}
                message={message}
                siblings={childrenOf(store.conversation, message.parent)}
                last={i === path.length - 1}
                busy={run !== undefined}
                phase={own ? run.phase : undefined}
                waiting={own ? store.load.waiting : undefined}
              />
            );
          })}
        </div>
      </div>
      {away && <IconButton icon="down" class="to-end" label="To the end" onClick={follow} />}
    </div>
  );
}
