/**
 * Events of the account, past and new, from one stream that begins with the oldest stored event.
 * They stay while the person is on other pages; the stream then goes on after the last one.
 */
import type { EventOptions, StreamedEvent } from '../../../../src/contract/delivery/events.ts';

export interface PastEvent {
  seq: number;
  kind: string;
  subjectId: string;
  atUnixMs: number;
  data: Record<string, unknown>;
}

export interface HistoryView {
  /** Newest first. */
  events: readonly PastEvent[];
  /** False until the stored events were read. */
  isRead: boolean;
  /** Older events are no longer stored, or were left out here. */
  hasOlder: boolean;
  error: unknown;
  /** Changes with each view. */
  version: number;
}

export interface History {
  /** Follows the stream until the returned function is called. */
  follow(): () => void;
  view(): HistoryView;
  subscribe(watcher: () => void): () => void;
}

interface HistoryDeps {
  events: (options: EventOptions) => AsyncIterable<StreamedEvent>;
  most?: number;
  gatherMs?: number;
  /** Silence after which the stored events were read: the stream does not say so. */
  quietMs?: number;
}

const MOST = 20_000;
const GATHER_MS = 60;
const QUIET_MS = 600;

export function makeHistory({ events, most = MOST, gatherMs = GATHER_MS, quietMs = QUIET_MS }: HistoryDeps): History {
  /** Oldest first. */
  let known: PastEvent[] = [];
  let hasOlder = false;
  let isRead = false;
  let error: unknown = null;
  let current: HistoryView = { events: [], isRead, hasOlder, error, version: 0 };
  let timer: ReturnType<typeof setTimeout> | undefined;
  let quiet: ReturnType<typeof setTimeout> | undefined;
  const watchers = new Set<() => void>();

  const show = (): void => {
    timer = undefined;
    if (known.length > most) {
      known = known.slice(-most);
      hasOlder = true;
    }
    current = { events: known.toReversed(), isRead, hasOlder, error, version: current.version + 1 };
    for (const watcher of watchers) watcher();
  };
  const showSoon = (): void => void (timer ??= setTimeout(show, gatherMs));
  const awaitQuiet = (): void => {
    clearTimeout(quiet);
    if (isRead) return;
    quiet = setTimeout(() => {
      isRead = true;
      show();
    }, quietMs);
  };

  async function read(signal: AbortSignal): Promise<void> {
    error = null;
    awaitQuiet();
    try {
      for await (const one of events({ after: known.at(-1)?.seq ?? 0, signal })) {
        if (signal.aborted) return;
        if (one.type === 'gap') hasOlder = true;
        else known.push(one);
        awaitQuiet();
        showSoon();
      }
    } catch (thrown) {
      if (signal.aborted) return;
      error = thrown;
      show();
    }
  }

  return {
    follow() {
      const ending = new AbortController();
      void read(ending.signal);
      return () => {
        ending.abort();
        clearTimeout(quiet);
      };
    },
    view: () => current,
    subscribe(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

/** Names of the resources, as their last events called them. Takes the newest first. */
export function namesIn(events: readonly PastEvent[]): Map<string, string> {
  const names = new Map<string, string>();
  for (const { subjectId, data } of events) {
    const { name } = data;
    if (typeof name === 'string' && name !== '' && !names.has(subjectId)) names.set(subjectId, name);
  }
  return names;
}

export const subjectOf = (kind: string): string => kind.slice(0, Math.max(0, kind.indexOf('.'))) || kind;

export interface HistoryFilter {
  kind?: string;
  subject?: string;
  q?: string;
}

/** `textOf`: what a row says, in which `q` is looked for. */
export function filtered(
  events: readonly PastEvent[],
  { kind, subject, q }: HistoryFilter,
  textOf: (event: PastEvent) => string,
): readonly PastEvent[] {
  const text = q?.toLowerCase();
  return events.filter(
    (event) =>
      (kind === undefined || subjectOf(event.kind) === kind) &&
      (subject === undefined || event.subjectId === subject) &&
      (text === undefined || textOf(event).toLowerCase().includes(text)),
  );
}
