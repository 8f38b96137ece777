/**
 * # The states of an instance
 *
 * A wish (`desired`) is written by a use-case: a launch, start or restart wishes `running`, a stop `stopped`, a terminate
 * `released`. Passes then bring the engine to the wish; what callers see as `status` follows from what was seen on the way:
 *
 *     launch ──► Initializing ──► PullingImage ──► Starting ──► Running
 *                     │                │ ▲             │
 *                     ▼                ▼ │             ▼
 *          InitializationFailed    Starting (BackOff) StartingFailed
 *
 *     Running ── stop ──► Running, phase Stopping ──► Stopped ── start ──► Starting ──► Running
 *     Running ── restart ──► Restarting ──► Running
 *     any ── terminate ──► Released (at once; the phase says what is still to be cleaned)
 *
 * `Initializing` is the time before the first container exists; a failure then is `InitializationFailed`, later `StartingFailed`
 * (and so is an image that could not be had in time: by then the instance was `Starting`).
 * Both are lasting: Berth gives up the wish (desired becomes `stopped`), frees the capacity, and the user may start or terminate.
 * A container that ends by itself, or is removed by others, while `running` is wished is started or made again with back-off, up
 * to `limits.maxAttempts`.
 * `Archived` is part of the interface; no action of this version leads to it.
 */

/** `interface.md` §3, in its order. */
export const instanceStatuses = [
  'Running',
  'Stopped',
  'Starting',
  'StartingFailed',
  'Initializing',
  'InitializationFailed',
  'Archived',
  'Released',
  'PullingImage',
  'Restarting',
] as const;
export type InstanceStatus = (typeof instanceStatuses)[number];

/** Closed list of `instanceRuntimeInfo.phase`: what is being done right now. */
export const phases = [
  'Queued', // the wish is written, no pass has looked at it yet
  'DownloadImage', // bytes of the image move, or the image is being built
  'PrepareDisks', // waits for its volumes, or makes its disks
  'CreateContainer',
  'WaitReady', // the container runs, ssh does not answer yet
  'Ready',
  'Stopping',
  'Stopped',
  'Cleaning', // released; its container is being removed, and holds its ports and volumes until it is
  'RemovingDisks', // released; its container is gone, its data disk is being removed
  'Cleaned', // released; nothing of it is left
  'Failed',
] as const;
export type Phase = (typeof phases)[number];

/** Closed list of `instanceRuntimeInfo.diagnosisReason`, each with what the user can do next. '' means nothing is wrong. */
export const diagnoses = {
  '': '',
  EngineUnreachable: 'The container engine of the region does not answer. Nothing is lost; it goes on by itself.',
  BackOff: 'The image cannot be had at the moment; it is tried again by itself. Check the image name, or terminate.',
  ImageFailed: 'The image could not be had in time. Choose another image, or start again later.',
  VolumePending: 'A mounted volume is not ready yet. It goes on by itself once the volume is Bound.',
  VolumeLost: 'The backing of a mounted volume is gone. Terminate, and launch without it.',
  DisksFailed: 'The disks could not be made. Start again; if it repeats, ask the operator to look at the host.',
  PortTaken: 'A node port was taken by another program of the host; another one is tried by itself.',
  EngineRejected: 'The engine refused the instance. The message says why; change the request and launch anew.',
  ContainerExited: 'The main process of the instance ended. Look at its log; start it again when the cause is mended.',
  OutOfMemory: 'The instance used more memory than its type has. Choose a larger type.',
  StartTimeout: 'The instance did not become ready in time. Start it again, or choose another image.',
} as const;
export type Diagnosis = keyof typeof diagnoses;

/** Statuses that nothing but a new wish leaves. */
export const lastingStatuses: readonly InstanceStatus[] = [
  'Running',
  'Stopped',
  'StartingFailed',
  'InitializationFailed',
  'Archived',
  'Released',
];

export const actions = ['start', 'stop', 'restart', 'terminate'] as const;
export type Action = (typeof actions)[number];

/**
 * Why an action is not legal now, or null when it is. Terminate is legal in every state; the caller never sees a released
 * instance here, because it is gone (404) for actions.
 */
export function whyNot(
  action: Action,
  status: InstanceStatus,
  desired: 'running' | 'stopped' | 'released',
): string | null {
  const stopping = desired === 'stopped' && (status === 'Running' || !lastingStatuses.includes(status));
  switch (action) {
    case 'terminate':
      return null;
    case 'stop':
      return desired === 'running'
        ? null
        : stopping
          ? 'it is stopping already; wait until it is Stopped, or terminate it'
          : `it is already ${status}; start it, or terminate it`;
    case 'start':
      if (stopping) return 'it is still stopping; wait until it is Stopped';
      return desired === 'stopped' ? null : `it is ${status} and wished to run; stop or restart it`;
    case 'restart':
      if (status === 'Running' && desired === 'running') return null;
      return `it is ${status}; only a Running instance can be restarted${desired === 'stopped' ? ', use start' : ''}`;
    default:
      return action satisfies never;
  }
}

/** Times and counts that the plan obeys. Milliseconds where the name says so. */
export interface Limits {
  /** From a wish to run until the image must be there. */
  imageDeadlineMs: number;
  /** From a started container until ssh (or else the notebook) must answer. */
  readyDeadlineMs: number;
  maxAttempts: number;
  backOffBaseMs: number;
  backOffMaxMs: number;
  stopGraceMs: number;
  /** A call to an engine that should be quick is given up after this: what came of it is unknown then. */
  callDeadlineMs: number;
  /** How soon an engine that did not answer, or did not do what it said, is asked again. */
  askAgainMs: number;
}

export const defaultLimits: Limits = {
  imageDeadlineMs: 30 * 60_000, // interface-notes.md: ends as StartingFailed after 30 minutes
  readyDeadlineMs: 120_000,
  maxAttempts: 5,
  backOffBaseMs: 1_000,
  backOffMaxMs: 60_000,
  stopGraceMs: 10_000,
  callDeadlineMs: 60_000,
  askAgainMs: 2_000,
};

export const backOffMs = (attempts: number, limits: Limits): number =>
  Math.min(limits.backOffMaxMs, limits.backOffBaseMs * 2 ** Math.max(0, attempts - 1));
