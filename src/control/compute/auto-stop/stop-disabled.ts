import { instancesOfDisabledAccounts } from '../../../store/tables/instance-queries.ts';
import { type StopAutomatically, type TaskDeps, eachFew } from '../../kernel/ports.ts';

interface StopDisabledDeps extends Pick<TaskDeps, 'store' | 'log'> {
  stopAutomatically: StopAutomatically;
}

/** Stops instances of disabled accounts, also those that a request under way started meanwhile. */
export const makeStopDisabled =
  ({ store, log, stopAutomatically }: StopDisabledDeps): (() => Promise<void>) =>
  async () => {
    const running = await instancesOfDisabledAccounts(store.read);
    const stop = ({ id, ownerId }: { id: string; ownerId: string }): Promise<unknown> =>
      stopAutomatically({ id, ownerId }, () => ({ cause: 'AccountDisabled', why: {} })).catch((error: unknown) =>
        log.warn({ id, err: error }, 'could not stop an instance of a disabled account; Berth retries'),
      );
    await eachFew(running, stop);
  };
