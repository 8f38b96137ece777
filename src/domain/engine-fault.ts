/** What an engine throws, and control passes on to the gateway. `message` is fit for the instance's owner; the cause is for the log. */
export const faultKinds = ['not_found', 'busy', 'no_capacity', 'rejected', 'unreachable', 'denied'] as const;
export type FaultKind = (typeof faultKinds)[number];

export class EngineFault extends Error {
  override readonly name = 'EngineFault';
  readonly kind: FaultKind;
  readonly retry: boolean;
  /** Set when a node port is taken by another program of the host, so that another one can be allotted. */
  readonly takenNodePort: number | undefined;

  constructor(kind: FaultKind, message: string, more: { retry: boolean; takenNodePort?: number; cause?: unknown }) {
    super(message, { cause: more.cause });
    this.kind = kind;
    this.retry = more.retry;
    this.takenNodePort = more.takenNodePort;
  }
}
