/** An act of one click: says what was done, or why not. */
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient, type QueryKey } from '@tanstack/react-query';
import { useFailureNotice } from './use-failure-notice.ts';

interface ActOptions<Input, Output> {
  act: (input: Input) => Promise<Output>;
  /** Sentence for the person; left out or empty: what changes on the page says it. */
  said?: (output: Output, input: Input) => string;
  /** Answers that the act makes stale, besides those of its event. */
  stale?: QueryKey;
}

export function useOneAct<Input = void, Output = unknown>({ act, said, stale }: ActOptions<Input, Output>) {
  const onError = useFailureNotice();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: async (output, input) => {
      const message = said?.(output, input) ?? '';
      if (message !== '') notifications.show({ message, color: 'berth' });
      if (stale) await queries.invalidateQueries({ queryKey: stale });
    },
    onError,
  });
}
