import { memo } from 'preact/compat';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Message, Stats } from '../state/conversation';
import type { Phase } from '../state/run';
import type { Store } from '../state/store';
import { CopyButton } from './copy';
import { FailureCard } from './failure';
import { Icon, IconButton } from './icons';
import { Markdown } from './markdown';
import { duration, statsLine, statsRows, timeShares } from './words';

interface MessageProps {
  store: Store;
  message: Message;
  siblings: Message[];
  last: boolean;
  busy: boolean; // an answer is being written in this conversation
  phase?: Phase; // of this very answer
  waiting?: number;
}

export const MessageView = memo(
  (props: MessageProps) => (props.message.role === 'user' ? <Question {...props} /> : <Answer {...props} />),
  (a: MessageProps, b: MessageProps) =>
    a.message === b.message &&
    a.last === b.last &&
    a.busy === b.busy &&
    a.phase === b.phase &&
    a.waiting === b.waiting &&
    a.siblings.length === b.siblings.length,
);

function Branches({ store, message, siblings, busy }: MessageProps) {
  if (siblings.length < 2) return null;
  const at = siblings.findIndex((sibling) => sibling.id === message.id);
  const go = (to: number) => {
    const sibling = siblings[to];
    if (sibling) store.show(sibling);
  };
  return (
    <span class="branches">
      <IconButton icon="left" label="Version before" disabled={busy || at === 0} onClick={() => go(at - 1)} />
      <span aria-label={`Version ${at + 1} of ${siblings.length}`}>
        {at + 1}/{siblings.length}
      </span>
      <IconButton icon="right" label="Next version" disabled={busy || at === siblings.length - 1} onClick={() => go(at + 1)} />
    </span>
  );
}

function Question(props: MessageProps) {
  const { store, message, busy } = props;
  const [editing, setEditing] = useState(false);
  if (editing) {
    return (
      <article class="question editing" aria-label="Your question, being edited">
        <Editor
          text={message.content}
          onCancel={() => setEditing(false)}
          onDone={(text) => {
            setEditing(false);
            if (text.trim() !== message.content) store.edit(message, text);
          }}
        />
      </article>
    );
  }
  return (
    <article class="question" aria-label="Your question">
      <div class="bubble">{message.content}</div>
      <div class="actions">
        <Branches {...props} />
        <CopyButton text={() => message.content} label="Copy question" />
        <IconButton icon="edit" class="edit-question" label="Edit question" disabled={busy} onClick={() => setEditing(true)} />
      </div>
    </article>
  );
}

function Editor({ text, onDone, onCancel }: { text: string; onDone: (text: string) => void; onCancel: () => void }) {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const element = area.current;
    element?.focus();
    element?.setSelectionRange(text.length, text.length);
  }, []);
  const done = () => onDone(area.current?.value ?? text);
  return (
    <>
      <textarea
        ref={area}
        aria-label="Edit your question"
        rows={Math.min(12, text.split('\n').length + 1)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') {
            event.stopPropagation();
            onCancel();
          } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            done();
          }
        }}
      >
        {text}
      </textarea>
      <div class="editor-buttons">
        <button type="button" onClick={onCancel}>Cancel</button>
        <button type="button" class="primary" onClick={done}>Ask again</button>
      </div>
    </>
  );
}

/** Seconds since the component appeared, told once a second. */
function useSeconds(active: boolean): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    if (!active) return;
    const start = performance.now();
    const timer = setInterval(() => setSeconds(Math.floor((performance.now() - start) / 1000)), 1000);
    return () => clearInterval(timer);
  }, [active]);
  return seconds;
}

function Waiting({ phase, waiting }: { phase: Phase; waiting?: number }) {
  const seconds = useSeconds(true);
  let words = phase === 'sending' ? 'Sending your question' : 'Reading your question';
  if (waiting) words = waiting === 1 ? 'Waiting for a place (1 request in the queue)' : `Waiting for a place (${waiting} requests in the queue)`;
  return (
    <div class="waiting">
      <span class="pulse" aria-hidden="true" />
      <span>
        {words}…{seconds >= 2 && <span class="elapsed"> {duration(seconds * 1000)}</span>}
      </span>
      {seconds >= 20 && !waiting && phase === 'reading' && (
        <p>A large model that is read from disk can take minutes before its first word.</p>
      )}
    </div>
  );
}

function Thought({ message, live }: { message: Message; live: boolean }) {
  const [open, setOpen] = useState<boolean | undefined>(undefined); // until a person says
  const shown = open ?? live;
  const time = message.stats?.thoughtMs;
  const title = live ? 'Thinking' : message.content ? 'Thought' : 'Thought, not finished';
  return (
    <section class={`thought ${live ? 'live' : ''}`}>
      <button type="button" class="fold" aria-expanded={shown} onClick={() => setOpen(!shown)}>
        <span class={live ? 'pulse' : 'dot'} aria-hidden="true" />
        {title}
        {time !== undefined && ` for ${duration(live ? Math.floor(time / 1000) * 1000 || 1 : time)}`}
        <Icon name={shown ? 'down' : 'right'} />
      </button>
      {shown && (
        <div class="thought-text">
          <Markdown text={message.reasoning.trim()} complete={!live} />
        </div>
      )}
    </section>
  );
}

/** Where the time went: disk, computing and the rest, as one bar. */
function Shares({ stats }: { stats: Stats }) {
  const shares = timeShares(stats);
  if (shares.length === 0) return null;
  let end = 0;
  return (
    <figure class="shares">
      <svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">
        {shares.map(({ kind, share }) => (
          <rect key={kind} class={kind} x={(end += share) - share} width={share} height="1" />
        ))}
      </svg>
      <figcaption>
        {shares.map(({ kind, words }) => (
          <span key={kind} class={kind}>{words}</span>
        ))}
      </figcaption>
    </figure>
  );
}

function Took({ message }: { message: Message }) {
  const [open, setOpen] = useState(false);
  const stats = message.stats;
  if (!stats || !statsLine(stats)) return null;
  return (
    <>
      <button type="button" class="took-line" aria-expanded={open} onClick={() => setOpen(!open)} title="What this answer took">
        {statsLine(stats)}
      </button>
      {open && <Shares stats={stats} />}
      {open && (
        <dl class="took-rows">
          {statsRows(stats).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
          {message.model && (
            <div>
              <dt>Model</dt>
              <dd>{message.model}</dd>
            </div>
          )}
        </dl>
      )}
    </>
  );
}

function Answer(props: MessageProps) {
  const { store, message, busy, phase, last, waiting } = props;
  const live = message.status === 'streaming' && phase !== undefined;
  const thinking = live && phase !== 'answering';
  const nothing = !message.content && !message.reasoning;
  const unfinished = !live && !nothing && (message.status === 'stopped' || message.status === 'cut' || message.status === 'length');
  return (
    <article class="answer" aria-label="Answer" aria-busy={live}>
      {message.reasoning.trim() && <Thought message={message} live={thinking} />}
      {live && (phase === 'sending' || phase === 'reading') && <Waiting phase={phase} waiting={waiting} />}
      {message.content && <Markdown text={message.content} complete={!live} />}
      {!live && nothing && message.status !== 'failed' && (
        <p class="aside">{message.status === 'done' ? 'The model answered with nothing.' : 'Stopped before the first word.'}</p>
      )}
      {message.failure && <FailureCard store={store} message={message} active={last && !busy} />}
      {unfinished && !message.failure && (
        <p class="aside">{message.status === 'length' ? 'The answer reached its longest length.' : message.status === 'cut' ? 'The answer was cut.' : 'Stopped.'}</p>
      )}
      {live ? (
        phase === 'answering' || phase === 'thinking' ? (
          <div class="actions live-actions">
            <span class="took-line">{message.stats ? statsLine(message.stats) : ''}</span>
          </div>
        ) : null
      ) : (
        <div class="actions">
          <Branches {...props} />
          {message.content && <CopyButton text={() => message.content} label="Copy answer" />}
          {message.status !== 'failed' && <IconButton icon="again" class="regenerate" label="Answer again" disabled={busy} onClick={() => store.again(message)} />}
          {unfinished && last && !message.failure && (
            <button type="button" class="quiet go-on" disabled={busy} onClick={() => store.goOn(message)}>Continue</button>
          )}
          {message.status !== 'failed' && <Took message={message} />}
        </div>
      )}
    </article>
  );
}
