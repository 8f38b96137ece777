import type { Caller, Idempotency, StartedOperation, Pager, TextPage } from '../base/caller.ts';
import type { LaunchInput } from './launch.ts';
import type { DiskSizes } from '../../domain/desired-state.ts';
import type { PublicStage } from '../../domain/public-operation.ts';
import type { PublicDisk } from '../../domain/disk-usage.ts';

type OnInstance = (
  caller: Caller,
  body: { instanceId: string },
  idempotency: Idempotency | null,
) => Promise<{ instanceId: string } & StartedOperation>;

export interface Instances {
  /** `waitMs`: longest wait in the queue without capacity; null: refuse at once. */
  launch(
    caller: Caller,
    input: LaunchInput,
    idempotency: Idempotency | null,
    waitMs?: number | null,
  ): Promise<{ instanceId: string } & StartedOperation>;
  /** Newest first; a page past the end is empty, with the total. */
  list(caller: Caller, pager: Pager): Promise<TextPage>;
  stop: OnInstance;
  start: (...asked: [...Parameters<OnInstance>, waitMs?: number | null]) => ReturnType<OnInstance>;
  restart: OnInstance;
  archive: OnInstance;
  terminate: OnInstance;
  /** Keeps absent sizes. Throws `no_capacity` when the pool is full. */
  expandDisk(
    caller: Caller,
    body: { instanceId: string } & DiskSizes,
    idempotency: Idempotency | null,
  ): Promise<{ instanceId: string } & StartedOperation>;
  /** The instance, and the stages of its last bring-up; `operationId` is null without one. */
  get(
    caller: Caller,
    body: { instanceId: string },
  ): Promise<{ instanceText: string; timeline: PublicStage[]; operationId: string | null; disks: PublicDisk[] }>;
  /** Link to a gateway session: valid once, for a minute. Other accounts need the port's access. */
  open(caller: Caller, body: { instanceId: string; port?: number | undefined }): Promise<{ url: string }>;
}
