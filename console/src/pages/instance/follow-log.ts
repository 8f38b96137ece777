/** Follows a log of an instance, by the stream of the API. */
import { useEffect, useRef, useState } from 'react';
import { api } from '../../app/api.ts';
import { useTexts } from '../../texts/provider.tsx';
import { plainOf, withLines, type ShownLine } from './log-lines.ts';
import type { ShownLog } from './search.ts';

const FIRST_LINES = 5_000;
/** Lines that come together are one change of the page. */
const GATHER_MS = 60;

export interface FollowedLog {
  lines: readonly ShownLine[];
  isFollowing: boolean;
  error: unknown;
}

const nothing: FollowedLog = { lines: [], isFollowing: true, error: null };

/** `run` changes when the log is to be read from its begin again. */
export function useLog(instanceId: string, source: ShownLog, run: string): FollowedLog {
  const { logs } = useTexts().instance;
  const [state, setState] = useState(nothing);
  const words = useRef(logs);
  words.current = logs;
  useEffect(() => {
    const abort = new AbortController();
    let waiting: ShownLine[] = [];
    let timer: number | undefined;
    let key = 0;
    const flush = (): void => {
      timer = undefined;
      const more = waiting;
      waiting = [];
      if (more.length > 0) setState((before) => ({ ...before, lines: withLines(before.lines, more) }));
    };
    const add = (text: string, atUnixMs: number | null, isNote: boolean): void => {
      waiting.push({ key: key++, atUnixMs, text, isNote });
      timer ??= window.setTimeout(flush, GATHER_MS);
    };
    const follow = async (): Promise<void> => {
      for await (const item of api.followLogs(instanceId, { source, tail: FIRST_LINES, signal: abort.signal })) {
        if (item.type === 'line') add(plainOf(item.text) + (item.cut ? ' […]' : ''), item.atUnixMs, false);
        else if (item.type === 'gap') add(words.current.gap, null, true);
        else if (item.type === 'status') add(words.current.status(item.status), null, true);
      }
    };
    setState(nothing);
    follow().then(
      () => !abort.signal.aborted && setState((before) => ({ ...before, isFollowing: false })),
      (error: unknown) => !abort.signal.aborted && setState((before) => ({ ...before, isFollowing: false, error })),
    );
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [instanceId, source, run]);
  return state;
}
