import { runningOfDisabled } from '../../../store/tables/instance-queries.ts';
import { type ActHandler, type StopAutomatically, type TaskDeps, eachOf } from '../../kernel/ports.ts';

interface StopDisabledDeps extends Pick<TaskDeps, 'store'> {
  stopAutomatically: StopAutomatically;
}

/** Stops instances of a disabled account. Requests under way are refused, or come before. */
export const makeStopDisabled =
  ({ store, stopAutomatically }: StopDisabledDeps): ActHandler =>
  async ({ id: ownerId }) => {
    const running = await runningOfDisabled(store.read, ownerId);
    await eachOf(running, (id) => stopAutomatically({ id, ownerId }, () => ({ cause: 'AccountDisabled', why: {} })));
    return null;
  };
