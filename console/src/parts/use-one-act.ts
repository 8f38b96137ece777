/** An act of one click: says what was done, or why not. */
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient, type QueryKey } from '@tanstack/react-query';
import { sentenceOf } from './trouble.tsx';
import { useTexts } from '../texts/provider.tsx';

interface ActOptions<Input, Output> {
  act: (input: Input) => Promise<Output>;
  /** Sentence for the person; left out: what changes on the page says it. */
  said?: (output: Output, input: Input) => string;
  /** Answers that the act makes stale, besides those of its event. */
  stale?: QueryKey;
}

export function useOneAct<Input = void, Output = unknown>({ act, said, stale }: ActOptions<Input, Output>) {
  const texts = useTexts();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: async (output, input) => {
      if (said) notifications.show({ message: said(output, input), color: 'berth' });
      if (stale) await queries.invalidateQueries({ queryKey: stale });
    },
    onError: (error) =>
      notifications.show({ title: texts.common.failed, message: sentenceOf(error, texts), color: 'red' }),
  });
}
