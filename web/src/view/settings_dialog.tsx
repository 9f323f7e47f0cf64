import { useRef, useState } from 'preact/hooks';
import { exportJson, importJson } from '../state/export';
import { type Field, fields, parseField, recommended, type Settings } from '../state/settings';
import type { Store } from '../state/store';
import { Dialog } from './dialog';
import { download } from './download';

const shown = (settings: Settings, field: Field) => (settings[field.name] === undefined ? '' : String(settings[field.name]));

function NumberField({ field, settings, onChange }: { field: Field; settings: Settings; onChange: (settings: Settings) => void }) {
  const [text, setText] = useState(shown(settings, field));
  const { error } = parseField(field, text);
  const id = `setting-${field.name}`;
  return (
    <div class="field">
      <label for={id}>{field.label}</label>
      <input
        id={id}
        inputMode={field.step === 1 ? 'numeric' : 'decimal'}
        autocomplete="off"
        value={text}
        placeholder={String(recommended[field.name] ?? '')}
        aria-invalid={error !== undefined}
        aria-describedby={`${id}-hint`}
        onInput={(event) => {
          const next = event.currentTarget.value;
          setText(next);
          const parsed = parseField(field, next);
          if (parsed.error === undefined) onChange({ ...settings, [field.name]: parsed.value });
        }}
      />
      <small id={`${id}-hint`} class={error ? 'wrong' : ''}>{error ?? field.hint}</small>
    </div>
  );
}

export function SettingsDialog({ store, onClose }: { store: Store; onClose: () => void }) {
  const [round, setRound] = useState(0); // a reset draws the fields anew
  const [said, setSaid] = useState('');
  const file = useRef<HTMLInputElement>(null);
  const { settings } = store;
  const change = (next: Settings) => store.setSettings(next);
  const field = (entry: Field) => <NumberField key={`${entry.name}${round}`} field={entry} settings={settings} onChange={change} />;

  const bring = async (chosen: File | undefined) => {
    if (!chosen) return;
    try {
      const conversations = importJson(await chosen.text());
      store.add(conversations);
      setSaid(conversations.length === 1 ? 'One conversation added.' : `${conversations.length} conversations added.`);
    } catch (error) {
      setSaid((error as Error).message);
    }
  };

  return (
    <Dialog title="Settings" onClose={onClose}>
      <section>
        <h3>This conversation</h3>
        <label class="field wide">
          <span>System prompt</span>
          <textarea
            rows={3}
            value={store.conversation.system}
            placeholder="None, as DeepSeek recommends for R1"
            onInput={(event) => store.setSystem(event.currentTarget.value)}
          />
        </label>
      </section>
      <section>
        <div class="section-top">
          <h3>Sampling</h3>
          <button type="button" class="quiet" onClick={() => (store.setSettings({ ...recommended }), setRound(round + 1))}>
            Reset to recommended
          </button>
        </div>
        <div class="fields">{fields.filter((entry) => !entry.more).map(field)}</div>
        <details open={fields.some((entry) => entry.more && settings[entry.name] !== undefined)}>
          <summary>More</summary>
          <div class="fields">{fields.filter((entry) => entry.more).map(field)}</div>
        </details>
      </section>
      <section>
        <h3>Conversations</h3>
        <div class="row">
          <button
            type="button"
            disabled={store.heads.length === 0}
            onClick={() => void store.all().then((all) => download('conversations.json', exportJson(all), 'application/json'))}
          >
            Save all as JSON
          </button>
          <button type="button" onClick={() => file.current?.click()}>Add from JSON</button>
          <input
            ref={file}
            class="off-screen"
            type="file"
            accept="application/json,.json"
            tabIndex={-1}
            aria-label="A file of conversations"
            onChange={(event) => {
              void bring(event.currentTarget.files?.[0]);
              event.currentTarget.value = '';
            }}
          />
        </div>
        {said && <p role="status">{said}</p>}
      </section>
      <section>
        <h3>Keys</h3>
        <dl class="keys">
          {[
            ['Enter', 'send'],
            ['Shift + Enter', 'new line'],
            ['Esc', 'stop the answer'],
            ['Ctrl + K', 'new chat'],
            ['Arrow up', 'in an empty field: edit the last question'],
            ['Alt + arrows', 'the conversation above or below'],
          ].map(([key, what]) => (
            <div key={key}>
              <dt><kbd>{key}</kbd></dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      </section>
    </Dialog>
  );
}
