import type { Caller, Idempotency, StartedOperation, Pager, TextPage } from '../base/caller.ts';
import type { LaunchInput } from './launch.ts';
import type { DiskSizes } from '../../domain/disk-expansion.ts';
import type { PublicStage } from '../../domain/public-operation.ts';
import type { PublicDisk } from '../../domain/disk-usage.ts';

type OnInstance = (
  caller: Caller,
  body: { instanceId: string },
  idempotency: Idempotency | null,
) => Promise<{ instanceId: string } & StartedOperation>;

export interface Instances {
  /** `waitMs`: how long it waits in line when the region has no room; null, as if not given: not at all, it is refused. */
  launch(
    caller: Caller,
    input: LaunchInput,
    idempotency: Idempotency | null,
    waitMs?: number | null,
  ): Promise<{ instanceId: string } & StartedOperation>;
  /** Newest first; a page past the end has no texts and the true total. */
  list(caller: Caller, pager: Pager): Promise<TextPage>;
  stop: OnInstance;
  start: (...asked: [...Parameters<OnInstance>, waitMs?: number | null]) => ReturnType<OnInstance>;
  restart: OnInstance;
  archive: OnInstance;
  terminate: OnInstance;
  /** Larger disks: what is not set stays. Throws `no_capacity` when their pool has not so much. */
  expandDisk(
    caller: Caller,
    body: { instanceId: string } & DiskSizes,
    idempotency: Idempotency | null,
  ): Promise<{ instanceId: string } & StartedOperation>;
  /** One instance as lists show it, and the stages of the operation that brought it up, or brings it; null when none is kept. */
  get(
    caller: Caller,
    body: { instanceId: string },
  ): Promise<{ instanceText: string; timeline: PublicStage[]; operationId: string | null; disks: PublicDisk[] }>;
  /** A link to the gateway that hands the caller's browser a session: good once, for a minute. Of another's instance for a port that is set so. */
  open(caller: Caller, body: { instanceId: string; port?: number | undefined }): Promise<{ url: string }>;
}
