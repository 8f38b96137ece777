/** What an engine throws, and control passes on to the gateway. `message` is fit for the instance's owner; the cause is for the log. */
export const faultKinds = ['not_found', 'busy', 'no_capacity', 'rejected', 'unreachable', 'denied'] as const;
export type FaultKind = (typeof faultKinds)[number];

/**
 * What was the matter, where an engine can tell for certain, so that nobody has to read sentences. A fault without one is of its
 * kind and no more.
 */
export const faultReasons = [
  /** The registry says that there is no such image, or that this is no name of one. */
  'imageMissing',
  /** The registry wants credentials, or other ones. */
  'imageDenied',
  /** Made for another processor, without a shell, or broken. */
  'imageUnfit',
  /** The registry can't be reached, is broken, or lets nobody in for now. The engine itself is well. */
  'registryAway',
  'diskFull',
  /** A folder that is to be mounted is not there, or is none. */
  'badMount',
  /** A node port is taken by another program of the host. */
  'portTaken',
  /** The host has no memory left to start it, or the limit is too low for that. */
  'outOfMemory',
  /** The host has no GPUs, or not so many, or can't hand them out. */
  'gpuMissing',
  /** The GPUs are there, and used by others at the moment. */
  'gpuBusy',
  /** The host has fewer cores than are asked for. */
  'hostTooSmall',
  /** Something that is not ours has the name of ours. */
  'nameTaken',
] as const;
export type FaultReason = (typeof faultReasons)[number];

interface FaultFacts {
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
  /** Set when a node port is taken by another program of the host, so that another one can be allotted. */
  readonly takenNodePort: number | undefined;

  constructor(kind: FaultKind, message: string, more: FaultFacts) {
    super(message, { cause: more.cause });
    this.kind = kind;
    this.retry = more.retry;
    this.reason = more.reason;
    this.takenNodePort = more.takenNodePort;
  }
}
