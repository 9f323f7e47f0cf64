// Drawn on a grid of 20, in the colour of the text.
const shapes = {
  plus: 'M10 4v12M4 10h12',
  menu: 'M3 6h14M3 10h14M3 14h14',
  close: 'M5 5l10 10M15 5L5 15',
  send: 'M10 16V4M5 9l5-5 5 5',
  copy: 'M7 7h9v9H7zM4 13V4h9',
  check: 'M4 10.5l4 4 8-9',
  again: 'M15.5 8A6 6 0 1 0 16 11M16 4v4h-4',
  edit: 'M4 16l1-4 8-8 3 3-8 8zM11 6l3 3',
  more: 'M5 10h.01M10 10h.01M15 10h.01',
  left: 'M12 5l-5 5 5 5',
  right: 'M8 5l5 5-5 5',
  down: 'M5 8l5 5 5-5',
  sliders: 'M3 6h8M15 6h2M3 14h2M9 14h8M13 4v4M7 12v4',
  sun: 'M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1',
  moon: 'M16 12.2A6.5 6.5 0 0 1 7.8 4 6.5 6.5 0 1 0 16 12.2z',
  half: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 3v14',
  clock: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 6v4l3 2',
} as const;

export type IconName = keyof typeof shapes | 'stop';

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      {name === 'stop' ? <rect x="5.5" y="5.5" width="9" height="9" rx="1.5" fill="currentColor" stroke="none" /> : <path d={shapes[name]} />}
    </svg>
  );
}

/** A button that shows only a picture: its label is what it does. */
export function IconButton(props: {
  icon: IconName;
  label: string;
  onClick: () => void;
  disabled?: boolean;
  class?: string;
  expanded?: boolean;
}) {
  return (
    <button
      type="button"
      class={`icon-button ${props.class ?? ''}`}
      aria-label={props.label}
      title={props.label}
      aria-expanded={props.expanded}
      disabled={props.disabled}
      onClick={props.onClick}
    >
      <Icon name={props.icon} />
    </button>
  );
}
