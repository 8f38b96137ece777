/**
 * # The states of an instance
 *
 * A use case writes the desired state (`desired`), a reconciler the observation (`observed`).
 * Launch, start and restart desire `running`; stop and automatic stops (schedule, longest run,
 * idleness) `stopped`; archive `archived`; terminate `released`. Reconcilers bring the engine to
 * the desired state, and the `status` that callers see follows from their observations:
 *
 *     launch ──► Initializing ──► PullingImage ──► Starting ──► Running
 *                     │                │ ▲             │
 *                     ▼                ▼ │             ▼
 *          InitializationFailed    Starting (BackOff) StartingFailed
 *
 *     Running ── stop ──► Running, phase Stopping ──► Stopped ── start ──► Starting ──► Running
 *     Running ── restart ──► Restarting ──► Running
 *     Running or Stopped ── archive ──► phase Archiving ──► Archived ── start ──► Starting
 *     any ── terminate ──► Released (at once; the phase says what is still to be cleaned)
 *
 * A failure before the image pull or the container is `InitializationFailed`, later
 * `StartingFailed` (also when the image never arrives). Both are permanent: desired becomes
 * `stopped`, capacity is freed, and the user may start, terminate or, once a container existed,
 * archive. A launch in the capacity queue is `Initializing`, phase `Queued`, reason `NoCapacity`;
 * before its off-peak window the reason is `OffPeakWait`, and it is in no queue. A
 * container that exits or disappears while `running` is desired is restarted with back-off, up to
 * `limits.maxAttempts`.
 *
 * No instance is stuck: each transient status has a deadline (`deadlines`), terminate is always
 * legal, and an engine outage pauses deadlines. A stop never fails: after `limits.stopDeadlineMs`
 * the container is killed, and a refused kill is retried with the reason shown.
 */

/** `docs/interface.md` §3, in its order. */
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

/** Stop and archive change the status only once they are done. */
export const statusEvents = [
  'start', // requested, of an instance that had a container
  'relaunch', // requested, of one that never had
  'restart',
  'terminate',
  'pull', // image bytes arrive
  'imageFails', // the image is unavailable; retried
  'create', // about to ask the engine for the container
  'made', // the container runs; ssh does not answer yet
  'ready', // ssh, or its substitute, answers
  'end', // the container ended or was removed while `running` was desired
  'failPermanently',
  'stop',
  'archive', // root disk saved as an image, container removed
] as const;
export type StatusEvent = (typeof statusEvents)[number];

const bringUpTransitions = {
  pull: 'PullingImage',
  imageFails: 'Starting',
  create: 'Starting',
  made: 'Starting',
  ready: 'Running',
  end: 'Starting',
  failPermanently: 'StartingFailed',
  stop: 'Stopped',
  terminate: 'Released',
} as const;

export const transitions: Readonly<Record<InstanceStatus, Readonly<Partial<Record<StatusEvent, InstanceStatus>>>>> = {
  Initializing: { ...bringUpTransitions, create: 'Initializing', failPermanently: 'InitializationFailed' },
  PullingImage: bringUpTransitions,
  Starting: bringUpTransitions,
  Restarting: { ...bringUpTransitions, imageFails: 'Restarting', create: 'Restarting', made: 'Restarting' },
  Running: {
    restart: 'Restarting',
    pull: 'PullingImage',
    imageFails: 'Starting',
    create: 'Starting',
    made: 'Starting',
    end: 'Starting',
    failPermanently: 'StartingFailed',
    stop: 'Stopped',
    archive: 'Archived',
    terminate: 'Released',
  },
  Stopped: { start: 'Starting', relaunch: 'Initializing', archive: 'Archived', terminate: 'Released' },
  StartingFailed: {
    start: 'Starting',
    relaunch: 'Initializing',
    stop: 'Stopped', // after a failed or cancelled archive
    archive: 'Archived',
    terminate: 'Released',
  },
  InitializationFailed: { relaunch: 'Initializing', terminate: 'Released' },
  Archived: { start: 'Starting', terminate: 'Released' },
  Released: {},
};

/** Throws if the table has no such transition: a bug of ours, and nothing is written. */
export function nextStatus(status: InstanceStatus, event: StatusEvent): InstanceStatus {
  const next = transitions[status][event];
  if (next === undefined) throw new Error(`the status ${status} has no transition for the event "${event}"`);
  return next;
}

/** Closed list of `instanceRuntimeInfo.phase`: the work in progress. */
export const phases = [
  'Queued', // not reconciled yet, waiting for capacity, or in back-off after an exit
  'DownloadImage',
  'PrepareDisks',
  'CreateContainer',
  'WaitReady',
  'Ready',
  'Stopping',
  'Stopped',
  'Archiving',
  'Archived',
  'Cleaning', // released; the container is being removed and still holds its ports and volumes
  'RemovingDisks', // released; container gone, data disk being removed
  'Cleaned',
  'Failed',
] as const;
export type Phase = (typeof phases)[number];

/** Closed list of `instanceRuntimeInfo.diagnosisReason`, each with the user's next step. */
export const diagnoses = {
  '': '',
  NoCapacity:
    'The region has too little free capacity. The instance waits in the capacity queue and starts automatically. To stop waiting, terminate it and choose another type.',
  OffPeakWait:
    'The charge mode is tidePerHour, and no off-peak window of the region is open. The instance starts by itself when the next one opens. To stop waiting, stop or terminate it.',
  EngineUnreachable:
    'The container engine of the region does not answer. Nothing is lost; the instance continues automatically when the engine answers.',
  BackOff:
    'The image is not available at the moment; Berth retries automatically. Check the image name, or terminate the instance.',
  CapacityTimeout:
    'No capacity became free within the waiting time. Start the instance to wait again, or choose another type.',
  ImageDenied:
    'The registry denies access to the image. Register credentials that may read the image, and start the instance again.',
  ImageFailed: 'The image was not available in time. Choose another image, or start the instance again later.',
  ImageUnfit: 'The image lacks what Berth needs in it. Choose another image, or add what the message names to it.',
  VolumePending: 'A mounted volume is not ready yet. The instance continues automatically when the volume is Bound.',
  VolumeLost: 'The disk of a mounted volume is gone. Remove the volume from the instance, and start it.',
  DisksFailed:
    'The disks could not be created. Start the instance again; if the failure repeats, ask the operator to check the host.',
  DisksLost:
    'A disk of the instance is gone from the storage of the region. Ask the operator to restore the disk, and start the instance again; or terminate it, and launch another.',
  RootDiskLost:
    'The container of the instance, or the image of its archived root disk, was removed outside of Berth, as by a prune of the engine: its root disk is gone. The data disk, the shared folder and volumes are kept. Start the instance with a new root disk ("newRootDisk": true), or terminate it.',
  DiskInUse:
    'The instance has ended and its capacity is free, but a process of the host still holds one of its disks. Berth removes the disk when that process ends; the operator can end it.',
  BadMount:
    'A disk could not be mounted at the requested path. Change the mount path or remove the mount, and start the instance.',
  DiskFull: 'The disk of the host is full. Ask the operator to free space, then start the instance again.',
  PortTaken:
    'A node port is taken. Berth tries another port automatically; an instance that ran before keeps its ports, and Berth retries until the port is free.',
  PortsUsedUp:
    'The node ports of the region are used up, or taken by other programs of the host. Start the instance again later, or ask the operator for a wider range.',
  EngineRejected: 'The engine refused the instance. Change the request as the message says, and launch again.',
  ContainerExited:
    'The main process of the instance exited; Berth restarts it automatically. Read the console for the cause.',
  Evicted:
    'The cluster ended the instance on its node, for example to drain the node; Berth starts it again by itself. Its data disk, shared folder and volumes are kept.',
  CrashLoop: 'The main process exited repeatedly. Read the console, fix the cause, and start the instance again.',
  OutOfMemory: 'The instance used more memory than its type has. Change the instance to a larger type, and restart it.',
  StartTimeout: 'The instance did not become ready in time. Start it again, or choose another image.',
  StopDelayed:
    'The instance has not stopped yet; Berth is killing its processes. Wait, or terminate the instance if you no longer need it.',
  GpuLost:
    'The host has lost the GPU of the instance, or taken it, as a reload of systemd does where the older NVIDIA runtime gave it. Time without it costs the price without GPUs. Restart the instance to get one again.',
  Unhealthy: 'Neither ssh nor the notebook answers. Restart the instance, or read its console.',
  ArchiveFailed:
    'The root disk could not be saved as an image. Nothing is lost: try again; after a change of the instance, change it back and start it.',
  ScheduledStop: 'The instance was stopped at its scheduled time. Start it again when you need it.',
  MaxRunTime: 'The instance reached its longest run time. Start it again when you need it.',
  OffPeakEnded:
    'The off-peak window ended. Start the instance again to wait for the next window; with the option resume it starts by itself.',
  SpotReclaimed:
    'An instance at full price, or other work of the cluster, needed the capacity of this spot instance. Start it again when there is capacity; with the option resume it waits for capacity by itself.',
  IdleStop:
    'The instance was stopped because nothing used it. Start it again, and change its idle rules if the stop was wrong.',
  PaidTimeEnded:
    'The paid time is over, and was not renewed, so the instance was stopped; nothing was deleted. Start it to buy the same time again, or terminate it.',
  OperatorStop: 'An operator stopped the instance. Start it again when the reason is gone, or ask the operator.',
  AccountDisabled:
    'The account was disabled, so its instances were stopped; nothing was deleted. Start the instance again when an administrator has enabled the account.',
  NoMoney:
    'The account had no money left, so its instances were stopped; volumes and files stay readable. Top up the account, and start the instance again; POST /api/billing/forecast says what follows, and when.',
  BudgetReached:
    'A budget of the account was reached, so the instance was stopped; nothing was deleted. Raise or delete the budget, or start the instance again next month; POST /api/billing/budget/list shows the budgets.',
  RootDiskOverSize:
    'The root disk grew past its size, so the instance was stopped; nothing was deleted. Start it again, and delete files outside of /root/dataDisk or move them there or to a volume; it may run as long as the root disk does not grow.',
  HostNearlyFull:
    'The host ran short of disk space, and the disks of the instance grew most, so it was stopped; nothing was deleted. Start it again, and delete what you do not need or move it to a volume.',
} as const;
export type Diagnosis = keyof typeof diagnoses;

const permanentReasons: Readonly<Partial<Record<Diagnosis, Diagnosis>>> = {
  NoCapacity: 'CapacityTimeout',
  EngineUnreachable: 'StartTimeout',
  BackOff: 'ImageFailed',
  VolumePending: 'DisksFailed',
  PortTaken: 'PortsUsedUp',
  ContainerExited: 'CrashLoop',
};

export const permanentReason = (reason: Diagnosis): Diagnosis => permanentReasons[reason] ?? reason;

export const transientStatuses = ['Initializing', 'PullingImage', 'Starting', 'Restarting'] as const;
export type TransientStatus = (typeof transientStatuses)[number];

export const isLasting = (status: InstanceStatus): status is Exclude<InstanceStatus, TransientStatus> =>
  !(status in deadlines);

export const actions = ['start', 'stop', 'restart', 'archive', 'terminate'] as const;
export type Action = (typeof actions)[number];

export const desiredStates = ['running', 'stopped', 'archived', 'released'] as const;
export type DesiredState = (typeof desiredStates)[number];

/** Returns why the action is illegal, or null. Released instances answer 404 before. */
export function refusalOfAction(action: Action, status: InstanceStatus, desired: DesiredState): string | null {
  const stopping = desired === 'stopped' && (status === 'Running' || !isLasting(status));
  const archiving = desired === 'archived' && status !== 'Archived';
  switch (action) {
    case 'terminate':
      return null;
    case 'stop':
      if (desired === 'running' || archiving) return null;
      return stopping
        ? 'the instance is already stopping; wait until it is Stopped, or terminate it'
        : `the instance is already ${status}; start it, or terminate it`;
    case 'start':
      if (stopping) return 'the instance is still stopping; wait until it is Stopped';
      if (archiving)
        return 'the instance is being archived; wait until it is Archived, or stop it to cancel the archiving';
      return desired === 'running'
        ? `the instance is ${status} and its desired state is running; stop or restart it`
        : null;
    case 'restart':
      if (status === 'Running' && desired === 'running') return null;
      if (stopping) return 'the instance is stopping; wait until it is Stopped, then start it';
      if (archiving) return 'the instance is being archived; wait until it is Archived, then start it';
      return `the instance is ${status}; only a Running instance can be restarted${desired === 'running' ? '' : ', use start'}`;
    case 'archive':
      if (archiving) return 'the instance is already being archived; wait until it is Archived, or terminate it';
      if (transitions[status].archive !== undefined) return null;
      return status === 'Archived'
        ? 'the instance is already Archived; start it, or terminate it'
        : `the instance is ${status}; only an instance that is Running, Stopped or StartingFailed can be archived`;
    default:
      return action satisfies never;
  }
}

export const legalActions = (status: InstanceStatus, desired: DesiredState): Action[] =>
  desired === 'released' ? [] : actions.filter((action) => refusalOfAction(action, status, desired) === null);

/** Time that programs have to end at a stop. */
export const STOP_GRACE_MS = 10_000;

export interface Limits {
  /** Image, disk and start deadlines count from the request to run. */
  imageDeadlineMs: number;
  disksDeadlineMs: number;
  /** Longest pull that holds capacity, from the request or the end of its queue. */
  pullHoldMs: number;
  /** Counted from the container's start until ssh, or else the notebook, answers. */
  readyDeadlineMs: number;
  /** Wait for the gateway's ssh front, for images without sshd; ready without it afterwards. */
  sshFrontMs: number;
  startDeadlineMs: number;
  /** Counts from the request to stop or archive until a kill without grace. */
  stopDeadlineMs: number;
  maxAttempts: number;
  /** Spans some minutes of host failures, as of a network disk. */
  maxDiskAttempts: number;
  backOffBaseMs: number;
  backOffMaxMs: number;
  stopGraceMs: number;
  /** Deadline of quick engine calls, after which the outcome is unknown. */
  callDeadlineMs: number;
  /** Per disk created or mounted. */
  storageDeadlineMs: number;
  copyDeadlineMs: number;
  /** Delay before an engine is asked again. */
  engineRetryMs: number;
  /** Longest wait of a caller for the check of an image. */
  imageCheckMs: number;
  /** Between checks of a registered image whose registry is away. */
  imageRecheckMs: number;
  /** Between comparisons of an image with its registry. */
  imageFollowMs: number;
}

/** Longest copy of a root disk by an engine: tens of gigabytes to a slow disk. */
export const MAX_COPY_MS = 60 * 60_000;

export const defaultLimits: Limits = {
  imageDeadlineMs: 30 * 60_000, // docs/interface.md, decisions: StartingFailed after 30 minutes
  disksDeadlineMs: 10 * 60_000,
  pullHoldMs: 5 * 60_000,
  readyDeadlineMs: 120_000,
  sshFrontMs: 5_000,
  startDeadlineMs: 60 * 60_000,
  stopDeadlineMs: 120_000,
  maxAttempts: 5,
  maxDiskAttempts: 10,
  backOffBaseMs: 1_000,
  backOffMaxMs: 60_000,
  stopGraceMs: STOP_GRACE_MS,
  callDeadlineMs: 60_000,
  storageDeadlineMs: 60_000,
  copyDeadlineMs: MAX_COPY_MS + 5 * 60_000, // the engine gives up first, and says why
  engineRetryMs: 2_000,
  imageCheckMs: 5_000,
  imageRecheckMs: 60_000,
  imageFollowMs: 24 * 3_600_000,
};

export interface Deadline {
  limit: 'imageDeadlineMs' | 'disksDeadlineMs' | 'startDeadlineMs' | 'copyDeadlineMs';
  reason: Diagnosis;
}

/** Counted from the request, or from the end of an engine outage (`Observed.countedFromMs`). */
export const deadlines: Readonly<Record<TransientStatus, Deadline>> = {
  Initializing: { limit: 'startDeadlineMs', reason: 'StartTimeout' },
  PullingImage: { limit: 'imageDeadlineMs', reason: 'ImageFailed' },
  Starting: { limit: 'startDeadlineMs', reason: 'StartTimeout' },
  Restarting: { limit: 'startDeadlineMs', reason: 'StartTimeout' },
};

/** Shorter than their status's. `WaitReady` counts from the container's start. */
export const phaseDeadlines: Readonly<Partial<Record<Phase, Deadline>>> = {
  PrepareDisks: { limit: 'disksDeadlineMs', reason: 'DisksFailed' },
  Archiving: { limit: 'copyDeadlineMs', reason: 'ArchiveFailed' },
};

export const backOffMs = (attempts: number, limits: Pick<Limits, 'backOffBaseMs' | 'backOffMaxMs'>): number =>
  Math.min(limits.backOffMaxMs, limits.backOffBaseMs * 2 ** Math.max(0, attempts - 1));
