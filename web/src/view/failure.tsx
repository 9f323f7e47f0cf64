import { useEffect, useState } from 'preact/hooks';
import type { Message } from '../state/conversation';
import type { Store } from '../state/store';

const titles: Record<string, string> = {
  gone: 'The server does not answer',
  cut: 'The connection ended in the middle of the answer',
  key: 'The server asks for a key',
  busy: 'The server has as many requests as it takes',
  loading: 'The model is not ready yet',
  context: 'The conversation is longer than the model’s context',
  request: 'The server refuses this request',
  server: 'The server reports an error',
};

const advice: Record<string, string> = {
  gone: 'Is fathom serve still running? What was written so far is kept.',
  cut: 'What came so far is kept.',
  context: 'Start a new chat, or edit an earlier question: what follows it is then left out.',
};

/** Whole seconds until a moment, counted down. */
function useCountdown(seconds: number): number {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    setLeft(seconds);
    if (seconds <= 0) return;
    const end = performance.now() + seconds * 1000;
    const timer = setInterval(() => {
      const now = Math.max(0, Math.ceil((end - performance.now()) / 1000));
      setLeft(now);
      if (now === 0) clearInterval(timer);
    }, 250);
    return () => clearInterval(timer);
  }, [seconds]);
  return left;
}

export function FailureCard({ store, message, active }: { store: Store; message: Message; active: boolean }) {
  const failure = message.failure;
  const left = useCountdown(active && failure?.retryAfter ? Math.min(3600, Math.ceil(failure.retryAfter)) : 0);
  if (!failure) return null;
  const title = titles[failure.kind] ?? titles.server;
  const detail = advice[failure.kind];
  return (
    <div class="failure" role="alert">
      <strong>{title}</strong>
      {failure.kind !== 'gone' && failure.kind !== 'cut' && <p class="said">{failure.message}</p>}
      {detail && <p>{detail}</p>}
      {active && (
        <div class="failure-buttons">
          {message.status === 'cut' ? (
            <button type="button" class="primary" onClick={() => store.goOn(message)}>Continue</button>
          ) : failure.kind === 'context' ? (
            <button type="button" class="primary" onClick={() => store.fresh()}>New chat</button>
          ) : (
            <button type="button" class="primary" disabled={left > 0} onClick={() => store.again(message)}>
              {left > 0 ? `Try again in ${left} s` : 'Try again'}
            </button>
          )}
        </div>
      )}
    </div>
  );
}
