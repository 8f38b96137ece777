/** A terminal emulator on the page, attached to a terminal of an instance. Loaded when shown. */
import '@xterm/xterm/css/xterm.css';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import { SocketClosed, type TerminalViewer } from '../../../../src/contract/compute/socket-client.ts';
import { api } from '../../app/api.ts';
import { styleNonce } from '../../app/theme.ts';

const SCROLLBACK_LINES = 10_000;
const FIT_MS = 80;

export type ScreenState =
  | { kind: 'connecting' }
  | { kind: 'attached'; isNew: boolean }
  | { kind: 'ended'; exitCode: number }
  /** The shell goes on; a new screen attaches to it. */
  | { kind: 'lost'; error: unknown };

interface ScreenOptions {
  instanceId: string;
  terminal: string;
  box: HTMLElement;
  label: string;
  onState: (state: ScreenState) => void;
}

/** Returns what takes the screen away; the shell goes on. */
export function showTerminal({ instanceId, terminal, box, label, onState }: ScreenOptions): () => void {
  const screen = new Terminal({
    scrollback: SCROLLBACK_LINES,
    fontFamily: 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace',
    fontSize: 13,
    cursorBlink: !window.matchMedia('(prefers-reduced-motion: reduce)').matches,
    screenReaderMode: true,
    theme: { background: '#101418', foreground: '#e6e9ec' },
    documentOverride: styledDocument(document),
  });
  const fit = new FitAddon();
  screen.loadAddon(fit);
  withNonces(() => screen.open(box));
  screen.textarea?.setAttribute('aria-label', label);
  fit.fit();
  let viewer: TerminalViewer | null = null;
  let isGone = false;
  const input = new TextEncoder();
  const send = (text: string): void => void viewer?.write(input.encode(text));
  screen.onData(send);
  screen.onBinary((text) => void viewer?.write(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  screen.onResize(({ cols, rows }) => viewer?.resize({ columns: cols, rows }));
  let timer: number | undefined;
  const observer = new ResizeObserver(() => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => fit.fit(), FIT_MS);
  });
  observer.observe(box);

  const attach = async (): Promise<void> => {
    onState({ kind: 'connecting' });
    const size = { columns: screen.cols, rows: screen.rows };
    const attached = await api.openTerminal(
      { instanceId, terminal, ...size },
      { onReset: () => screen.reset(), onSize: () => {} },
    );
    if (isGone) return attached.leave();
    viewer = attached;
    attached.resize({ columns: screen.cols, rows: screen.rows });
    onState({ kind: 'attached', isNew: attached.created });
    screen.focus();
    const output = attached.shown.getReader();
    for (;;) {
      const { value, done } = await output.read();
      if (done) break;
      await new Promise<void>((resolve) => screen.write(value, resolve));
    }
    const exitCode = await attached.ended;
    if (!isGone) onState({ kind: 'ended', exitCode });
  };
  attach().catch((error: unknown) => {
    if (isGone || (error instanceof SocketClosed && error.code === 1000)) return;
    onState({ kind: 'lost', error });
  });
  return () => {
    isGone = true;
    observer.disconnect();
    window.clearTimeout(timer);
    viewer?.leave();
    screen.dispose();
  };
}

function prepare<Made extends HTMLElement>(element: Made): Made {
  if (element instanceof HTMLStyleElement) element.nonce = styleNonce();
  else if (element instanceof HTMLSpanElement) {
    // The policy of the page forbids the attribute, and not the property behind it.
    const { setAttribute } = element;
    element.setAttribute = (name: string, value: string): void => {
      if (name === 'style') element.style.cssText = value;
      else setAttribute.call(element, name, value);
    };
  }
  return element;
}

/** The document, whose new style elements have the nonce of the page. */
const styledDocument = (real: Document): Document =>
  new Proxy(real, {
    get(target, key) {
      if (key === 'createElement') return (name: string) => prepare(target.createElement(name));
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
    set: (target, key, value) => Reflect.set(target, key, value, target),
  });

/** Parts of the emulator use the page's document whatever they are given. */
function withNonces(open: () => void): void {
  const { createElement } = Document.prototype;
  document.createElement = (name: string) => prepare(createElement.call(document, name));
  try {
    open();
  } finally {
    Reflect.deleteProperty(document, 'createElement');
  }
}
