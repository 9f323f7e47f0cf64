import katex from 'katex';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** A formula. KaTeX builds elements, not HTML, and follows no links and loads no pictures. */
export function Formula({ tex, display }: { tex: string; display: boolean }) {
  const place = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    try {
      katex.render(tex, element, { displayMode: display, throwOnError: true, trust: false, strict: 'ignore', maxSize: 40, maxExpand: 2000 });
      element.classList.remove('formula-bad');
    } catch {
      // What is no formula stays readable as it was written.
      element.textContent = display ? `\\[${tex}\\]` : `\\(${tex}\\)`;
      element.classList.add('formula-bad');
    }
  }, [tex, display]);
  return <span ref={place} class={display ? 'formula-display' : 'formula'} tabIndex={display ? 0 : undefined} />;
}
