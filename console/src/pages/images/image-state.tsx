/** State of an image, with the progress of its preparation. */
import { Progress, Stack, Text } from '@mantine/core';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import type { StateKind } from '../../parts/state-kind.ts';
import { StateWord } from '../../parts/state-word.tsx';
import { useTexts } from '../../texts/provider.tsx';

export type Image = AnswerOf<'listImages'>['images'][number];

const kinds: Readonly<Record<Image['state'], StateKind>> = {
  Ready: 'good',
  Absent: 'absent',
  Preparing: 'busy',
  Saving: 'busy',
  Failed: 'bad',
};

export function ImageState({ image: { name, state, stateText, progressPercent } }: { image: Image }) {
  const { images } = useTexts();
  return (
    <Stack gap={2}>
      <StateWord
        kind={kinds[state]}
        word={
          state === 'Preparing' ? `${images.states[state]} · ${Math.round(progressPercent)} %` : images.states[state]
        }
        why={state === 'Absent' && stateText === '' ? images.absentWhy : ''}
      />
      {state === 'Preparing' && (
        <Progress.Root size={4} maw={220}>
          <Progress.Section value={progressPercent} aria-label={images.progress(name)} />
        </Progress.Root>
      )}
      {stateText !== '' && (
        <Text size="xs" c={state === 'Failed' ? 'red' : 'dimmed'}>
          {stateText}
        </Text>
      )}
    </Stack>
  );
}
