import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { StorageFault } from '../contract.ts';

/** An engine that is away fails no volume. A log shows causes behind the message. */
export async function withEngineFaults<T>(verb: () => Promise<T>): Promise<T> {
  try {
    return await verb();
  } catch (error) {
    if (!(error instanceof EngineFault)) throw error;
    if (error.kind === 'no_capacity') throw new StorageFault('full', error.message, error.cause);
    if (error.kind === 'unreachable' || error.kind === 'denied')
      throw new StorageFault('away', error.message, error.cause);
    throw error;
  }
}
