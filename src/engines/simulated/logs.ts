/** Logs of a simulated instance. Future lines appear when due. */
import { untilAborted } from '../../async/abort.ts';
import type { LogLine, LogRange, EngineLogSource } from '../contract.ts';
import type { EngineFault } from '../../domain/regions/engine-fault.ts';
import { startCommandOf, type Container, type Line } from './container.ts';
import { aborted } from './injected-faults.ts';
import type { SimulatedHost } from './host.ts';

function linesIn(container: Container, source: EngineLogSource): readonly Line[] {
  if (source === 'start') return startCommandOf(container)?.lines ?? [];
  if (source === 'notebook') return [{ atMs: container.startedAtMs, text: 'the simulated notebook server is ready' }];
  return source === 'console' ? container.console : container.initLog;
}

const toLogLine = ({ atMs, text }: Line, source: EngineLogSource): LogLine => ({
  atMs: source === 'console' ? atMs : null,
  text,
  cut: false,
});

export function inRange(container: Container, source: EngineLogSource, range: LogRange, nowMs: number): Line[] {
  const { sinceMs, untilMs, tail } =
    source === 'console' ? range : { ...range, sinceMs: undefined, untilMs: undefined };
  const lines = linesIn(container, source).filter(
    ({ atMs }) => atMs <= nowMs && atMs >= (sinceMs ?? -Infinity) && atMs < (untilMs ?? Infinity),
  );
  return tail === undefined ? lines : lines.slice(Math.max(0, lines.length - Math.max(0, Math.floor(tail))));
}

export async function* read(
  lines: readonly Line[],
  { source, signal }: { source: EngineLogSource; signal: AbortSignal },
): AsyncGenerator<LogLine> {
  for (const line of lines) {
    if (signal.aborted) throw aborted(signal);
    yield toLogLine(line, source);
  }
}

export async function* follow(
  host: SimulatedHost,
  container: Container,
  { source, range, signal }: { source: EngineLogSource; range: LogRange; signal: AbortSignal },
): AsyncGenerator<LogLine> {
  const { clock } = host;
  let fault: EngineFault | undefined;
  const runEnd = new AbortController();
  const detach = host.attach(container, (cause) => {
    fault = cause;
    runEnd.abort();
  });
  const ended = AbortSignal.any([runEnd.signal, signal]);
  try {
    const begunMs = clock.now();
    for (const line of inRange(container, source, range, begunMs)) yield toLogLine(line, source);
    for (let untilMs = begunMs; ;) {
      const nowMs = clock.now();
      const due = linesIn(container, source).filter(({ atMs }) => atMs > untilMs && atMs <= nowMs);
      for (const line of due) yield toLogLine(line, source);
      untilMs = nowMs;
      if (signal.aborted) return;
      if (fault !== undefined && fault.kind !== 'not_found') throw fault;
      if (
        runEnd.signal.aborted ||
        container.state !== 'running' ||
        (source !== 'console' && scriptEndMs(container, source) <= nowMs)
      )
        return;
      const next = Math.min(...linesIn(container, source).map(({ atMs }) => (atMs > nowMs ? atMs : Infinity)));
      const wakeMs = source === 'console' ? next : Math.min(next, scriptEndMs(container, source));
      if (wakeMs === Infinity) await untilAborted(ended);
      else await clock.sleep(wakeMs - nowMs, ended).catch(() => {});
    }
  } finally {
    detach();
  }
}

export async function* emptyLog(): AsyncGenerator<LogLine> {}

/** -Infinity without a script that runs or will run. */
function scriptEndMs(container: Container, script: Exclude<EngineLogSource, 'console'>): number {
  if (script === 'notebook') return Infinity;
  if (script === 'start') return startCommandOf(container)?.endsAtMs ?? -Infinity;
  const { init } = container;
  return init === undefined || init.lost ? -Infinity : init.endsAtMs;
}
