import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { instanceFromRow, ownedInstanceRow } from '../../../store/tables/instances.ts';
import type { Store } from '../../../store/store.ts';
import type { Caller } from '../../kernel/ports.ts';

type Reader = Pick<Store, 'read'>;

export async function requireOwned(store: Reader, { accountId }: Caller, id: string): Promise<Instance> {
  const row = await ownedInstanceRow(store.read, accountId, id);
  if (!row) throw instanceNotFound();
  return instanceFromRow(row);
}

/** Throws `not_found`, or `not_now` unless the instance is Running. */
export async function requireRunning(store: Reader, caller: Caller, id: string): Promise<Instance> {
  const instance = await requireOwned(store, caller, id);
  const { status } = instance.observed;
  if (status === 'Running') return instance;
  const message = `instance ${id} is ${status}, and commands run only in a Running instance; try again when it is Running`;
  throw new Refusal('not_now', message);
}

const NO_ANSWER = 'the engine of the instance does not answer; try again in a moment';

/** Returns errors other than `EngineFault` unchanged. */
export function refusalOfFault(error: unknown): unknown {
  if (!(error instanceof EngineFault)) return error;
  const options = { detail: error };
  switch (error.kind) {
    case 'not_found':
      return new Refusal('not_now', `${error.message}; start it first`, options);
    case 'busy':
      return new Refusal('not_now', error.message, { ...options, retryAfterS: 5 });
    case 'no_capacity':
      return new Refusal('no_capacity', error.message, options);
    case 'rejected':
    case 'denied':
      return new Refusal('unsupported', error.message, options);
    case 'unreachable':
      return new Refusal('unavailable', error.reason === 'credentialsRefused' ? error.message : NO_ANSWER, {
        ...options,
        retryAfterS: 5,
      });
    default:
      return error.kind satisfies never;
  }
}
