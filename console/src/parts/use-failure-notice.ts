/** Says in a notice why something failed. */
import { notifications } from '@mantine/notifications';
import { useCallback } from 'react';
import { useTexts } from '../texts/provider.tsx';
import { sentenceOf } from './trouble.tsx';

export function useFailureNotice(): (error: unknown) => void {
  const texts = useTexts();
  return useCallback(
    (error) => void notifications.show({ title: texts.common.failed, message: sentenceOf(error, texts), color: 'red' }),
    [texts],
  );
}
