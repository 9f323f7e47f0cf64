import { useState } from 'preact/hooks';
import type { Store } from '../state/store';
import { Dialog } from './dialog';

export function KeyDialog({ store }: { store: Store }) {
  const [key, setKey] = useState('');
  const [keep, setKeep] = useState(false);
  return (
    <Dialog title="This server asks for a key">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          store.setKey(key.trim(), keep);
        }}
      >
        <label class="field">
          <span>API key</span>
          <input type="password" autocomplete="off" autofocus value={key} onInput={(event) => setKey(event.currentTarget.value)} />
          {store.keyRefused && <small class="wrong" role="alert">The server does not take this key.</small>}
          <small>The one that the server was started with (--api-key). It is sent to this server only.</small>
        </label>
        <label class="tick">
          <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} />
          <span>Remember it in this browser</span>
        </label>
        <div class="dialog-buttons">
          <button type="submit" class="primary" disabled={!key.trim()}>Use this key</button>
        </div>
      </form>
    </Dialog>
  );
}
