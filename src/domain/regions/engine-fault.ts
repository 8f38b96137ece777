/** The error of an engine. `message` may reach the instance's owner; `cause` is for the log. */
export const faultKinds = ['not_found', 'busy', 'no_capacity', 'rejected', 'unreachable', 'denied'] as const;
export type FaultKind = (typeof faultKinds)[number];

/** Set where the engine knows the cause for certain, so that no caller parses messages. */
export const faultReasons = [
  /** No such image, or not an image name. */
  'imageMissing',
  'imageDenied',
  /** Wrong architecture, no shell, or broken. */
  'imageUnfit',
  /** Registry unreachable, broken or throttling. The engine itself is well. */
  'registryAway',
  'diskFull',
  /** Missing, or not a folder. */
  'badMount',
  'portTaken',
  'outOfMemory',
  /** Missing, or no pass-through. */
  'gpuMissing',
  'gpuBusy',
  /** No node of a cluster has room, or a quota of it is used up. */
  'clusterFull',
  /** The instance waits for a node of the cluster's autoscaler. */
  'nodePending',
  /** A node of a cluster still downloads the image. */
  'imagePending',
  /** A disk of the instance has no volume yet. */
  'diskPending',
  /** A node cannot attach or mount a disk of the instance yet, and tries again. */
  'mountPending',
  /** A node has not started the instance yet, and goes on. */
  'startPending',
  /** The engine's API refuses the credentials of the region. */
  'credentialsRefused',
  'hostTooSmall',
  'nameTaken',
] as const;
export type FaultReason = (typeof faultReasons)[number];

interface FaultOptions {
  retry: boolean;
  reason?: FaultReason | undefined;
  takenNodePort?: number;
  cause?: unknown;
}

export class EngineFault extends Error {
  override readonly name = 'EngineFault';
  readonly kind: FaultKind;
  readonly retry: boolean;
  readonly reason: FaultReason | undefined;
  readonly takenNodePort: number | undefined;

  constructor(kind: FaultKind, message: string, options: FaultOptions) {
    super(message, { cause: options.cause });
    this.kind = kind;
    this.retry = options.retry;
    this.reason = options.reason;
    this.takenNodePort = options.takenNodePort;
  }
}

/** Whether the engine gave no answer; a registry that is away says nothing about the engine. */
export const isEngineAway = (error: unknown): boolean =>
  error instanceof EngineFault && error.kind === 'unreachable' && error.reason !== 'registryAway';
