import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { IconButton } from './icons';

interface DialogProps {
  title: string;
  onClose?: () => void; // without it the dialog stays until it is answered
  children: ComponentChildren;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      onClick={(event) => event.target === dialog.current && onClose?.()}
    >
      <div class="dialog-body">
        <div class="dialog-top">
          <h2>{title}</h2>
          {onClose && <IconButton icon="close" label="Close" onClick={onClose} />}
        </div>
        {children}
      </div>
    </dialog>
  );
}
