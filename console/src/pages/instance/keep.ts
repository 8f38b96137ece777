/** Vetoes against a coming stop. */
import { api } from '../../app/api.ts';
import { useOneAct } from '../../parts/use-one-act.ts';
import type { StopCause } from './headline.ts';

const HOUR_MINUTES = 60;

/** An idle stop is put off for an hour; a set time is removed. */
export function useKeep(instanceId: string) {
  return useOneAct({
    act: async (cause: StopCause) => {
      await (cause === 'idle'
        ? api.keepAlive({ instanceId, minutes: HOUR_MINUTES })
        : api.ends({ instanceId, stopAtUnixMs: null }));
    },
    stale: ['instances'],
  });
}
