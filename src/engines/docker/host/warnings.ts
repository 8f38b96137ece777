import type { EngineLog } from '../../engine-log.ts';

/** Logs a warning that repeated checks find once, and again after a change. Empty: none. */
export function makeWarnings(log: Pick<EngineLog, 'warn'>): (text: string) => void {
  let last = '';
  return (text) => {
    if (text !== last && text !== '') log.warn({}, text);
    last = text;
  };
}
