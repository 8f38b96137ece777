/**
 * # Idleness
 *
 * An instance with an idle policy is looked at again and again. A look reads signals, in the order of `signalNames`: the first that
 * tells of use is the reason why the instance is active. Only when every signal was read, and none tells of use, is it idle, and
 * only when that went on without a break for as long as the policy says is it stopped, after a warning.
 *
 * A signal that is missing or old says nothing, and least of all that nobody is there: the judgement is `unknown`, and idleness is
 * counted anew from when all is known again. The same after a pause between two looks, a jump of the clock, a start of the server:
 * what was not watched is not known.
 */

export const signalNames = ['keepAlive', 'kernel', 'terminal', 'ssh', 'http', 'gpu', 'cpu'] as const;
export type SignalName = (typeof signalNames)[number];

/** Signals that a policy may leave out. A keep-alive call always counts. */
export const ruleNames = ['kernel', 'terminal', 'ssh', 'http', 'gpu', 'cpu'] as const;
export type RuleName = (typeof ruleNames)[number];

export interface IdlePolicy {
  /** Stop when nothing has used it for so long. */
  afterMs: number;
  /** These don't keep it: a forgotten ssh session, say. */
  ignore: RuleName[];
  /** In use from here on, in percent of one CPU, however many it has: one busy thread is work. */
  cpuPercent: number;
  /** In use from here on, in percent of its busiest GPU. */
  gpuPercent: number;
}

export const idlePolicy = (afterMs: number, more: Partial<IdlePolicy> = {}): IdlePolicy => ({
  afterMs,
  ignore: [],
  cpuPercent: 10, // a notebook server with an open page idles at one or two
  gpuPercent: 5,
  ...more,
});

/** What one source told. */
export interface Signal {
  name: SignalName;
  /** When it was read; 0 when it could not be, and `text` says why. */
  atMs: number;
  /** Whether it was in use at that moment. */
  inUse: boolean;
  /** When it was last in use, as far as the source remembers; 0 when it knows of no use. */
  usedAtMs: number;
  /** What it told, to go on after "because": "a kernel is busy (notebook train.ipynb)". */
  text: string;
}

export const unreadSignal = (name: SignalName, text: string): Signal => ({
  name,
  atMs: 0,
  inUse: false,
  usedAtMs: 0,
  text,
});

export interface IdleLimits {
  /** From one look at an instance to the next. */
  checkEveryMs: number;
  /** A signal older than this says nothing any more; a longer pause between looks breaks the watch. */
  staleMs: number;
  /** What was used so short a time ago counts as in use. */
  recentMs: number;
  longestWarningMs: number;
  /** A connection that lasts no longer may be a probe of ours. */
  probeMs: number;
}

export const defaultIdleLimits: IdleLimits = {
  checkEveryMs: 30_000,
  staleMs: 90_000,
  recentMs: 45_000,
  longestWarningMs: 10 * 60_000,
  probeMs: 2_500, // ours are given up after two seconds
};

/** What is remembered from one judgement to the next. */
export interface IdleWatch {
  /** Since when nothing was missed; null: from the next judgement on. */
  sinceMs: number | null;
  usedAtMs: number;
  assessedAtMs: number;
  /** The beginning of the idleness that was warned of. */
  warnedOfMs: number | null;
}

export const noIdleWatch: IdleWatch = { sinceMs: null, usedAtMs: 0, assessedAtMs: 0, warnedOfMs: null };

export interface IdleVerdict {
  state: 'active' | 'idle' | 'unknown';
  because: string;
  idleSinceMs: number | null;
  willStopAtMs: number | null;
  /** What is to be done now. A stop always comes after a warning, at another look. */
  action: 'nothing' | 'warn' | 'stop';
  watch: IdleWatch;
}

/** What has to be known before it counts as idle. */
export const requiredSignals = ({ ignore }: IdlePolicy, hasGpus: boolean): SignalName[] =>
  signalNames.filter((name) => (name === 'keepAlive' || !ignore.includes(name)) && (name !== 'gpu' || hasGpus));

/** A reading from the future is of a clock that was moved since: how old it is nobody knows. */
export const isFresh = ({ atMs }: Signal, nowMs: number, { staleMs }: IdleLimits): boolean =>
  Math.abs(nowMs - atMs) <= staleMs;

export const isActive = ({ inUse, usedAtMs }: Signal, nowMs: number, { recentMs }: IdleLimits): boolean =>
  inUse || nowMs - usedAtMs <= recentMs;

export function assessIdleness(
  { policy, required, limits }: { policy: IdlePolicy; required: readonly SignalName[]; limits: IdleLimits },
  before: IdleWatch,
  signals: readonly Signal[],
  nowMs: number,
): IdleVerdict {
  const asked = required.map(
    (name) => signals.find((signal) => signal.name === name) ?? unreadSignal(name, 'it was not read'),
  );
  const fresh = asked.filter((signal) => isFresh(signal, nowMs, limits));
  const active = fresh.find((signal) => isActive(signal, nowMs, limits));
  const allKnown = fresh.length === asked.length;
  const sinceLookMs = nowMs - before.assessedAtMs;
  const unbroken = sinceLookMs >= 0 && sinceLookMs <= limits.staleMs ? before.sinceMs : null;
  if (active) {
    // How long after this look it goes on nobody knows, nor what those do that were not read: idleness begins at a later look.
    const over = allKnown && !fresh.some((signal) => signal.inUse);
    const watch = over
      ? { sinceMs: unbroken ?? nowMs, usedAtMs: lastUse(fresh, nowMs), assessedAtMs: nowMs, warnedOfMs: null }
      : { ...noIdleWatch, assessedAtMs: nowMs };
    return { state: 'active', because: active.text, idleSinceMs: null, willStopAtMs: null, action: 'nothing', watch };
  }
  if (!allKnown) {
    const missing = asked.filter((signal) => !fresh.includes(signal));
    const because = `no fresh reading of ${missing.map(({ name, text }) => `${name} (${text})`).join(', ')}`;
    const watch = { ...noIdleWatch, assessedAtMs: nowMs };
    return { state: 'unknown', because, idleSinceMs: null, willStopAtMs: null, action: 'nothing', watch };
  }
  const sinceMs = unbroken ?? nowMs;
  const usedAtMs = Math.min(nowMs, Math.max(before.usedAtMs, lastUse(fresh, nowMs)));
  const idleSinceMs = Math.max(sinceMs, usedAtMs);
  const endsMs = idleSinceMs + policy.afterMs;
  const warned = before.warnedOfMs === idleSinceMs;
  const willStopAtMs = warned ? endsMs : Math.max(endsMs, nowMs + limits.checkEveryMs);
  const action = warned
    ? nowMs >= endsMs
      ? 'stop'
      : 'nothing'
    : endsMs - nowMs <= warningMs(policy, limits)
      ? 'warn'
      : 'nothing';
  const warnedOfMs = warned || action === 'warn' ? idleSinceMs : null;
  const watch = { sinceMs, usedAtMs, assessedAtMs: nowMs, warnedOfMs };
  return { state: 'idle', because: 'nothing uses it', idleSinceMs, willStopAtMs, action, watch };
}

const lastUse = (signals: readonly Signal[], nowMs: number): number =>
  Math.min(nowMs, Math.max(...signals.map(({ usedAtMs }) => usedAtMs)));

/** A third of the time, and never less than two looks: a warning that no look is left for would put the stop off. */
const warningMs = ({ afterMs }: IdlePolicy, { longestWarningMs, checkEveryMs }: IdleLimits): number =>
  Math.max(Math.min(afterMs / 3, longestWarningMs), 2 * checkEveryMs);
