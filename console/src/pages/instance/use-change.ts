/** A change of the instance: says that it was taken, or why not, and reads the page again. */
import { useOneAct } from '../../parts/use-one-act.ts';
import { useTexts } from '../../texts/provider.tsx';

export function useChange<Given, Answer>(change: (given: Given) => Promise<Answer>, done?: (answer: Answer) => string) {
  const { saved } = useTexts().instance;
  return useOneAct({ act: change, said: (answer) => done?.(answer) ?? saved, stale: ['instances'] });
}

/** What an update answers, in words. */
export function useAppliesAt() {
  const { instance } = useTexts();
  return ({ appliesAt }: { appliesAt: 'now' | 'nextStart' }): string =>
    appliesAt === 'now' ? instance.saved : instance.savedForNextStart;
}
