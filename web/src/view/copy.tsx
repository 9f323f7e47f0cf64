import { useEffect, useState } from 'preact/hooks';
import { Icon } from './icons';

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages that came over plain HTTP from another machine have no clipboard but this one.
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'off-screen';
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}

export function CopyButton({ text, label }: { text: () => string; label: string }) {
  const [state, setState] = useState<'' | 'copied' | 'failed'>('');
  useEffect(() => {
    if (!state) return;
    const timer = setTimeout(() => setState(''), 1600);
    return () => clearTimeout(timer);
  }, [state]);
  const words = state === 'copied' ? 'Copied' : state === 'failed' ? 'The browser refuses to copy' : label;
  return (
    <button
      type="button"
      class="icon-button copy"
      aria-label={words}
      title={words}
      onClick={() => void copyText(text()).then((copied) => setState(copied ? 'copied' : 'failed'))}
    >
      <Icon name={state === 'copied' ? 'check' : state === 'failed' ? 'close' : 'copy'} />
    </button>
  );
}
