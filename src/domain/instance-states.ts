/**
 * # The states of an instance
 *
 * A wish (`desired`) is written by a use-case, a sight (`observed`) by a pass, and neither by the other. A launch, start or restart
 * wishes `running`, a stop `stopped`, an archive `archived`, a terminate `released`; what ends an instance by itself (a schedule, the
 * longest run, idleness) wishes `stopped` as its owner would. Passes then bring the engine to the wish, and the `status` that callers
 * see follows from what was met on the way:
 *
 *     launch ──► Initializing ──► PullingImage ──► Starting ──► Running
 *                     │                │ ▲             │
 *                     ▼                ▼ │             ▼
 *          InitializationFailed    Starting (BackOff) StartingFailed
 *
 *     Running ── stop ──► Running, phase Stopping ──► Stopped ── start ──► Starting ──► Running
 *     Running ── restart ──► Restarting ──► Running
 *     Running or Stopped ── archive ──► the same, phase Archiving ──► Archived ── start ──► Starting ──► Running
 *     any ── terminate ──► Released (at once; the phase says what is still to be cleaned)
 *
 * `Initializing` is the time before its image had to be pulled or its container exists; a failure then is `InitializationFailed`,
 * later `StartingFailed` (and so is an image that could not be had in time). Both are lasting: Berth gives up the wish (desired
 * becomes `stopped`), frees the capacity, and the user may start or terminate it; what a container was made for can be archived.
 * A launch that waits in line for capacity is `Initializing`, phase `Queued`, reason `NoCapacity`.
 * A container that ends by itself, or is removed by others, while `running` is wished is started or made again with back-off, up
 * to `limits.maxAttempts`.
 *
 * Nobody is ever stuck: each status that is not lasting has a deadline (`deadlines`), terminate is legal in every state, and an
 * engine that is away stops the clock of the deadlines instead of failing what it holds. A stop alone can't fail: what does not hear
 * it is killed after `limits.stopDeadlineMs`, and if the engine refuses even that, the reason says so while it is tried again.
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

/** What moves a status: the wishes to start, restart and terminate, and what passes meet. A stop and an archive move it only once they are done. */
export const statusEvents = [
  'start', // wished, of one that had a container
  'startAnew', // wished, of one that never had
  'restart', // wished
  'terminate', // wished
  'pull', // bytes of its image move
  'imageFails', // the image can't be had now and is tried again
  'create', // the engine is about to be asked for its container
  'made', // its container runs; ssh does not answer yet
  'ready', // ssh (or what the image has instead) answers
  'end', // its container ended, or was removed by others, while it was wished to run
  'giveUp', // it can't be brought to run
  'stop', // a stop came to rest
  'archive', // its root disk is kept as an image, and its container is gone
] as const;
export type StatusEvent = (typeof statusEvents)[number];

/** Which event moves which status to which. What is not here does not happen: `after` throws. */
export const transitions: Readonly<Record<InstanceStatus, Readonly<Partial<Record<StatusEvent, InstanceStatus>>>>> = {
  Initializing: {
    pull: 'PullingImage',
    imageFails: 'Starting',
    create: 'Initializing',
    made: 'Starting',
    ready: 'Running',
    end: 'Starting',
    giveUp: 'InitializationFailed',
    stop: 'Stopped',
    terminate: 'Released',
  },
  PullingImage: {
    pull: 'PullingImage',
    imageFails: 'Starting',
    create: 'Starting',
    made: 'Starting',
    ready: 'Running',
    end: 'Starting',
    giveUp: 'StartingFailed',
    stop: 'Stopped',
    terminate: 'Released',
  },
  Starting: {
    pull: 'PullingImage',
    imageFails: 'Starting',
    create: 'Starting',
    made: 'Starting',
    ready: 'Running',
    end: 'Starting',
    giveUp: 'StartingFailed',
    stop: 'Stopped',
    terminate: 'Released',
  },
  Restarting: {
    pull: 'PullingImage',
    imageFails: 'Restarting',
    create: 'Restarting',
    made: 'Restarting',
    ready: 'Running',
    end: 'Starting',
    giveUp: 'StartingFailed',
    stop: 'Stopped',
    terminate: 'Released',
  },
  Running: {
    restart: 'Restarting',
    pull: 'PullingImage',
    imageFails: 'Starting',
    create: 'Starting',
    made: 'Starting',
    end: 'Starting',
    giveUp: 'StartingFailed',
    stop: 'Stopped',
    archive: 'Archived',
    terminate: 'Released',
  },
  Stopped: { start: 'Starting', startAnew: 'Initializing', archive: 'Archived', terminate: 'Released' },
  StartingFailed: {
    start: 'Starting',
    startAnew: 'Initializing',
    stop: 'Stopped', // of one that was to be archived, and is not
    archive: 'Archived',
    terminate: 'Released',
  },
  InitializationFailed: { startAnew: 'Initializing', terminate: 'Released' },
  Archived: { start: 'Starting', terminate: 'Released' },
  Released: {},
};

/** The status after the event. Throws when the table knows no such move: that is a fault of ours, and nothing is written. */
export function nextStatus(status: InstanceStatus, event: StatusEvent): InstanceStatus {
  const next = transitions[status][event];
  if (next === undefined) throw new Error(`no event "${event}" leads out of the status ${status}`);
  return next;
}

/** Closed list of `instanceRuntimeInfo.phase`: what is being done right now. */
export const phases = [
  'Queued', // no pass has looked at the wish yet, or it waits: in line for capacity, or to be started again after its container ended
  'DownloadImage', // bytes of the image move, or the image is being built
  'PrepareDisks', // waits for its volumes, or makes its disks
  'CreateContainer',
  'WaitReady', // the container runs, ssh does not answer yet
  'Ready',
  'Stopping',
  'Stopped',
  'Archiving', // its root disk is being kept as an image
  'Archived',
  'Cleaning', // released; its container is being removed, and holds its ports and volumes until it is
  'RemovingDisks', // released; its container is gone, its data disk is being removed
  'Cleaned', // released; nothing of it is left
  'Failed',
] as const;
export type Phase = (typeof phases)[number];

/** Closed list of `instanceRuntimeInfo.diagnosisReason`, each with what the user can do next. '' means nothing is wrong. */
export const diagnoses = {
  '': '',
  NoCapacity:
    'The region has no room now and the instance waits in line. It starts by itself; or terminate, and take another type.',
  EngineUnreachable: 'The container engine of the region does not answer. Nothing is lost; it goes on by itself.',
  BackOff: 'The image cannot be had at the moment; it is tried again by itself. Check the image name, or terminate.',
  CapacityTimeout:
    'No room came free in the time it was to wait. Start it again to wait once more, or take another type.',
  ImageDenied: 'The registry does not give the image out. Register credentials that may read it, and start again.',
  ImageFailed: 'The image could not be had in time. Choose another image, or start again later.',
  VolumePending: 'A mounted volume is not ready yet. It goes on by itself once the volume is Bound.',
  VolumeLost: 'The backing of a mounted volume is gone. Terminate, and launch without it.',
  DisksFailed: 'The disks could not be made. Start again; if it repeats, ask the operator to look at the host.',
  DisksLost:
    'A disk that it had is gone from the storage of the region. Ask the operator to bring it back, and start again; or terminate, and launch anew.',
  BadMount:
    'A disk could not be mounted where it was asked. Terminate, and launch with another mount path or without it.',
  DiskFull: 'The disk of the host is full. The operator has to free space; start again then.',
  PortTaken:
    'A node port is taken. Another one is tried by itself; one that has run keeps its ports, and is tried again until the port is free.',
  PortsUsedUp:
    'Node ports of the region are used up, or taken by other programs of the host. Start it again later, or ask the operator for a wider range.',
  EngineRejected: 'The engine refused the instance. The message says why; change the request and launch anew.',
  ContainerExited: 'The main process of the instance ended. Look at its log; it is started again by itself.',
  CrashLoop: 'The main process ended again and again. Look at its log, mend the cause, and start it again.',
  OutOfMemory: 'The instance used more memory than its type has. Choose a larger type.',
  StartTimeout: 'The instance did not become ready in time. Start it again, or choose another image.',
  StopDelayed: 'The instance has not stopped yet; it is being killed. Terminate it if you need not keep it.',
  Unhealthy: 'Neither ssh nor the notebook answers any more. Restart it, or look at its console.',
  ArchiveFailed: 'The root disk could not be kept as an image. Nothing is lost: archive again, or start it.',
  ScheduledStop: 'It was stopped at the time that was set. Start it again when you need it.',
  MaxRunTime: 'It had run as long as it may at most. Start it again when you need it.',
  IdleStop: 'It was stopped because nothing used it. Start it again, and set its idle rules if that was wrong.',
} as const;
export type Diagnosis = keyof typeof diagnoses;

/** What a reason of waiting is called once it is waited for no longer: nothing goes on by itself then. */
const lasting: Readonly<Partial<Record<Diagnosis, Diagnosis>>> = {
  NoCapacity: 'CapacityTimeout',
  EngineUnreachable: 'StartTimeout',
  BackOff: 'ImageFailed',
  VolumePending: 'DisksFailed',
  PortTaken: 'PortsUsedUp',
  ContainerExited: 'CrashLoop',
};

/** The reason that stays when the wish is given up. */
export const permanentReason = (reason: Diagnosis): Diagnosis => lasting[reason] ?? reason;

/** Statuses that something must lead out of before a deadline; the others are lasting: nothing but a new wish, or a crash, leaves them. */
export type TransientStatus = 'Initializing' | 'PullingImage' | 'Starting' | 'Restarting';

export const isLasting = (status: InstanceStatus): status is Exclude<InstanceStatus, TransientStatus> =>
  !(status in deadlines);

export const actions = ['start', 'stop', 'restart', 'archive', 'terminate'] as const;
export type Action = (typeof actions)[number];

export const desiredStates = ['running', 'stopped', 'archived', 'released'] as const;
export type DesiredState = (typeof desiredStates)[number];

/**
 * Why an action is not legal now, or null when it is. Terminate is legal in every state; the caller never sees a released
 * instance here, because it is gone (404) for actions.
 */
export function refusalOfAction(action: Action, status: InstanceStatus, desired: DesiredState): string | null {
  const stopping = desired === 'stopped' && (status === 'Running' || !isLasting(status));
  const archiving = desired === 'archived' && status !== 'Archived';
  switch (action) {
    case 'terminate':
      return null;
    case 'stop':
      // Of one that is being archived it gives the archive up.
      if (desired === 'running' || archiving) return null;
      return stopping
        ? 'it is stopping already; wait until it is Stopped, or terminate it'
        : `it is already ${status}; start it, or terminate it`;
    case 'start':
      if (stopping) return 'it is still stopping; wait until it is Stopped';
      if (archiving) return 'it is being archived; wait until it is Archived, or stop it first to give that up';
      return desired === 'running' ? `it is ${status} and wished to run; stop or restart it` : null;
    case 'restart':
      if (status === 'Running' && desired === 'running') return null;
      if (stopping) return 'it is stopping; wait until it is Stopped, then start it';
      if (archiving) return 'it is being archived; wait until it is Archived, then start it';
      return `it is ${status}; only a Running instance can be restarted${desired === 'running' ? '' : ', use start'}`;
    case 'archive':
      if (archiving) return 'it is being archived already; wait until it is Archived, or terminate it';
      if (transitions[status].archive !== undefined) return null;
      return status === 'Archived'
        ? 'it is already Archived; start it, or terminate it'
        : `it is ${status}; only one that is Running, Stopped or StartingFailed can be archived`;
    default:
      return action satisfies never;
  }
}

/** What is legal now, as lists say it (`actions`). Nothing is for a released one. */
export const legalActions = (status: InstanceStatus, desired: DesiredState): Action[] =>
  desired === 'released' ? [] : actions.filter((action) => refusalOfAction(action, status, desired) === null);

/** Times and counts that the plan obeys. Milliseconds where the name says so. */
export interface Limits {
  /** From a wish to run until the image must be there. */
  imageDeadlineMs: number;
  /** From a wish to run until volumes and disks must be there. */
  disksDeadlineMs: number;
  /** From a started container until ssh (or else the notebook) must answer. */
  readyDeadlineMs: number;
  /** So long the gateway's process is waited for to serve ssh of an image that has no sshd; without it the instance is ready all the same. */
  sshFrontMs: number;
  /** From a wish to run until it must run, whatever it waits for: what no deadline above has ended. */
  startDeadlineMs: number;
  /** From a wish to stop or archive until it is killed without grace. */
  stopDeadlineMs: number;
  maxAttempts: number;
  /** How often a disk is tried to be made or made larger when the host fails: some minutes, for it may be a disk of a network. */
  maxDiskAttempts: number;
  backOffBaseMs: number;
  backOffMaxMs: number;
  stopGraceMs: number;
  /** A call to an engine that should be quick is given up after this: what came of it is unknown then. */
  callDeadlineMs: number;
  /** The same of a storage that makes or mounts one disk. */
  storageDeadlineMs: number;
  /** The same of a call that copies a root disk. */
  copyDeadlineMs: number;
  /** How soon an engine that did not answer, or did not do what it said, is asked again. */
  engineRetryMs: number;
}

/** As long may an engine copy a root disk: tens of gigabytes to a slow disk. */
export const MAX_COPY_MS = 60 * 60_000;

export const defaultLimits: Limits = {
  imageDeadlineMs: 30 * 60_000, // interface-notes.md: ends as StartingFailed after 30 minutes
  disksDeadlineMs: 10 * 60_000,
  readyDeadlineMs: 120_000,
  sshFrontMs: 5_000,
  startDeadlineMs: 60 * 60_000,
  stopDeadlineMs: 120_000,
  maxAttempts: 5,
  maxDiskAttempts: 10,
  backOffBaseMs: 1_000,
  backOffMaxMs: 60_000,
  stopGraceMs: 10_000,
  callDeadlineMs: 60_000,
  storageDeadlineMs: 60_000,
  copyDeadlineMs: MAX_COPY_MS + 5 * 60_000, // an engine gives up first, and says why
  engineRetryMs: 2_000,
};

export interface Deadline {
  limit: 'imageDeadlineMs' | 'disksDeadlineMs' | 'startDeadlineMs';
  reason: Diagnosis;
}

/**
 * How long each status that is not lasting may last, and what it ended by then says. Counted from the wish, or from when the engine
 * answered again after it had been away (`Observed.countedFromMs`). Waiting in line for capacity has a deadline of its own.
 */
export const deadlines: Readonly<Record<TransientStatus, Deadline>> = {
  Initializing: { limit: 'startDeadlineMs', reason: 'StartTimeout' },
  PullingImage: { limit: 'imageDeadlineMs', reason: 'ImageFailed' },
  Starting: { limit: 'startDeadlineMs', reason: 'StartTimeout' },
  Restarting: { limit: 'startDeadlineMs', reason: 'StartTimeout' },
};

/** Phases with a shorter deadline than their status. `WaitReady` has another one, counted from the start of the container. */
export const phaseDeadlines: Readonly<Partial<Record<Phase, Deadline>>> = {
  PrepareDisks: { limit: 'disksDeadlineMs', reason: 'DisksFailed' },
};

export const backOffMs = (attempts: number, limits: Pick<Limits, 'backOffBaseMs' | 'backOffMaxMs'>): number =>
  Math.min(limits.backOffMaxMs, limits.backOffBaseMs * 2 ** Math.max(0, attempts - 1));
