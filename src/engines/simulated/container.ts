/**
 * A simulated container: plain data. Due events (crash, end of the init script, readiness) are
 * computed on access, so idle containers cost only memory.
 */
import type { ControlFile, EngineSpec, Observation } from '../contract.ts';
import { readScript, type Script, type UseName } from './script.ts';

export interface Line {
  atMs: number;
  text: string;
}

export interface Container {
  installation: string;
  spec: EngineSpec;
  state: 'created' | 'running' | 'exited';
  serial: number;
  createdAtMs: number;
  starts: number;
  startedAtMs: number;
  readyAtMs: number;
  exitCode: number | null;
  outOfMemory: boolean;
  docker?: 'running' | 'stopped' | undefined;
  touchedFiles: Set<string>;
  /** The init script runs once per root disk. */
  init: { code: number; endsAtMs: number; lost: boolean } | undefined;
  /** Includes future lines, which an earlier end drops. */
  console: Line[];
  initLog: Line[];
  script: Script;
}

const consoleLineLimit = 500;

export const fileOf = (spec: EngineSpec, name: string): ControlFile | undefined =>
  spec.files.find((file) => file.name === name);

export const scriptOf = (spec: EngineSpec): Script =>
  readScript(['start', 'init-script'].map((name) => fileOf(spec, name)?.content ?? ''));

/** Without the login of the image, which is not the container's. */
export const copyOf = ({ imageCredentials: _login, ...spec }: EngineSpec): EngineSpec => ({
  ...spec,
  mounts: spec.mounts.map((mount) => ({ ...mount })),
  nodePorts: spec.nodePorts.map((pair) => ({ ...pair })),
  files: spec.files.map((file) => ({ ...file })),
  ...(spec.docker && { docker: { ...spec.docker } }),
});

export function makeContainer(
  installation: string,
  spec: EngineSpec,
  serial: number,
  rootDisk: Iterable<string>,
  createdAtMs: number,
): Container {
  return {
    installation,
    spec,
    state: 'created',
    serial,
    createdAtMs,
    starts: 0,
    startedAtMs: 0,
    readyAtMs: 0,
    exitCode: null,
    outOfMemory: false,
    docker: spec.docker && 'stopped',
    touchedFiles: new Set(rootDisk),
    init: undefined,
    console: [],
    initLog: [],
    script: scriptOf(spec),
  };
}

export const addressOf = ({ serial }: Container): string =>
  `10.${(serial >>> 16) & 255}.${(serial >>> 8) & 255}.${serial & 255}`;

export function start(
  container: Container,
  { nowMs, readyMs, initMs }: { nowMs: number; readyMs: number; initMs: number },
): void {
  const { script, spec } = container;
  container.state = 'running';
  container.starts++;
  container.startedAtMs = nowMs;
  container.readyAtMs = nowMs + (script.readyAfterMs ?? readyMs);
  container.exitCode = null;
  container.outOfMemory = false;
  container.docker &&= 'running';
  for (const text of script.invalid) say(container, nowMs, text);
  say(container, nowMs, `berth: services${script.hasSsh ? ' ssh' : ''} notebook`);
  say(container, nowMs, 'berth: notebook ready');
  if (container.init !== undefined) {
    say(container, nowMs, container.init.lost ? 'berth: init lost' : `berth: init exit ${container.init.code}`);
  } else if ((fileOf(spec, 'init-script')?.content ?? '') === '') {
    say(container, nowMs, 'berth: init none');
  } else {
    const { code, afterMs } = script.initExit ?? { code: 0, afterMs: initMs };
    container.init = { code, endsAtMs: nowMs + afterMs, lost: false };
    say(container, nowMs, 'berth: init started');
    say(container, container.init.endsAtMs, `berth: init exit ${code}`);
    container.initLog = script.initSays.map((line) => ({ atMs: nowMs + line.afterMs, text: line.text }));
  }
  const command = startCommandOf(container);
  if (command !== null) {
    say(container, command.startsAtMs, 'berth: start started');
    say(container, command.endsAtMs, `berth: start exit ${command.code}`);
  }
  for (const line of script.says) say(container, nowMs + line.afterMs, line.text);
  container.console.sort((one, other) => one.atMs - other.atMs);
}

/** The start command's run, after the init script; null without one. */
export function startCommandOf({ spec, init, startedAtMs }: Container) {
  const text = fileOf(spec, 'start-command')?.content ?? '';
  if (text.trim() === '') return null;
  const { initExit, initSays } = readScript([text]);
  const startsAtMs = init === undefined || init.lost ? startedAtMs : Math.max(startedAtMs, init.endsAtMs);
  const lines = initSays.map((line): Line => ({ atMs: startsAtMs + line.afterMs, text: line.text }));
  return { startsAtMs, endsAtMs: startsAtMs + (initExit?.afterMs ?? 0), code: initExit?.code ?? 0, lines };
}

function say(container: Container, atMs: number, text: string): void {
  container.console.push({ atMs, text });
  if (container.console.length > consoleLineLimit)
    container.console.splice(0, container.console.length - consoleLineLimit);
}

export function end(container: Container, atMs: number, exitCode: number, outOfMemory = false): void {
  container.state = 'exited';
  container.exitCode = exitCode;
  container.outOfMemory = outOfMemory;
  container.console = container.console.filter((line) => line.atMs <= atMs);
  container.initLog = container.initLog.filter((line) => line.atMs <= atMs);
  if (container.init !== undefined && container.init.endsAtMs > atMs) container.init.lost = true;
}

/** Time of the next own event, if any. */
export function nextEventMs(container: Container, nowMs: number): number | undefined {
  if (container.state !== 'running') return undefined;
  const due = [crashAtMs(container), container.init?.endsAtMs, startCommandOf(container)?.endsAtMs].filter(
    (atMs) => atMs !== undefined && atMs > nowMs,
  );
  return due.length === 0 ? undefined : Math.min(...due.map((atMs) => atMs ?? Infinity));
}

function crashAtMs({ script: { crash }, starts, startedAtMs }: Container): number | undefined {
  return crash === undefined || (crash.once && starts > 1) ? undefined : startedAtMs + crash.afterMs;
}

/** Applies due events; true if the container ended. */
export function catchUp(container: Container, nowMs: number): boolean {
  const { crash } = container.script;
  if (container.state !== 'running' || crash === undefined) return false;
  const atMs = crashAtMs(container);
  if (atMs === undefined || atMs > nowMs) return false;
  end(container, atMs, crash.exitCode, crash.outOfMemory);
  return true;
}

export const isReady = (container: Container, nowMs: number): boolean =>
  container.state === 'running' && nowMs >= container.readyAtMs;

export const observationOf = (container: Container): Observation => ({
  kind: 'present',
  generation: container.spec.generation,
  running: container.state === 'running',
  exitCode: container.exitCode,
  outOfMemory: container.outOfMemory,
  startedAtMs: container.startedAtMs,
  nodePorts: container.spec.nodePorts.map((pair) => ({ ...pair })),
  ...(container.docker && { docker: container.docker }),
});

/** Amount of a use that the script declares for this run, 0 when over. */
export function useOf({ state, script, startedAtMs }: Container, name: UseName, nowMs: number): number {
  const use = script.uses.get(name);
  return use !== undefined && state === 'running' && nowMs < startedAtMs + use.forMs ? use.amount : 0;
}
