/** A change of the instance: says that it was taken, or why not, and reads the page again. */
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { sentenceOf } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';

export function useChange<Given, Answer>(change: (given: Given) => Promise<Answer>, done?: (answer: Answer) => string) {
  const texts = useTexts();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: async (answer) => {
      const message = done?.(answer) ?? texts.instance.saved;
      if (message !== '') notifications.show({ message, color: 'berth' });
      await queries.invalidateQueries({ queryKey: ['instances'] });
    },
    onError: (error) =>
      notifications.show({ title: texts.common.failed, message: sentenceOf(error, texts), color: 'red' }),
  });
}

/** What an update answers, in words. */
export function useAppliesAt() {
  const { instance } = useTexts();
  return ({ appliesAt }: { appliesAt: 'now' | 'nextStart' }): string =>
    appliesAt === 'now' ? instance.saved : instance.savedForNextStart;
}
