/** Vetoes against a coming stop. */
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { api } from '../../app/api.ts';
import { sentenceOf } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { StopCause } from './headline.ts';

const HOUR_MINUTES = 60;

/** An idle stop is put off for an hour; a set time is removed. */
export function useKeep(instanceId: string) {
  const texts = useTexts();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (cause: StopCause) => {
      await (cause === 'idle'
        ? api.keepAlive({ instanceId, minutes: HOUR_MINUTES })
        : api.ends({ instanceId, stopAtUnixMs: null }));
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ['instances'] }),
    onError: (error) =>
      notifications.show({ title: texts.common.failed, message: sentenceOf(error, texts), color: 'red' }),
  });
}
