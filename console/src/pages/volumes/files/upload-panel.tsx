/** Progress of uploads, with what to do about a taken name or a failure. */
import { ActionIcon, Button, Group, Paper, Progress, ScrollArea, Stack, Text } from '@mantine/core';
import { IconRefresh, IconX } from '@tabler/icons-react';
import { useFormat } from '../../../app/format.ts';
import { sentenceOf } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { uploads, useUploads } from './upload-state.ts';
import { isOver, type Upload, type UploadState } from './uploads.ts';

const SHOWN = 100;
const ranks: Readonly<Record<UploadState, number>> = {
  asks: 0,
  failed: 1,
  sending: 2,
  waiting: 3,
  done: 4,
  cancelled: 5,
};

export function UploadPanel({ volumeId }: { volumeId: string }) {
  const { files } = useTexts();
  const texts = files.uploads;
  const all = useUploads(volumeId);
  if (all.length === 0) return null;
  const asking = all.filter(({ state }) => state === 'asks');
  const isBusy = all.some((one) => !isOver(one));
  const done = all.filter(({ state }) => state === 'done').length;
  // What needs the person comes first, then what moves.
  const shown = [...all].sort((one, other) => ranks[one.state] - ranks[other.state]).slice(0, SHOWN);
  return (
    <Paper withBorder p="sm" component="section" aria-label={texts.title}>
      <Group justify="space-between" mb="xs" gap="xs">
        <Text size="sm" fw={600} role="status">
          {texts.summary(done, all.length)}
        </Text>
        <Group gap={4}>
          {asking.length > 1 && (
            <Button variant="light" onClick={() => uploads.replace(asking.map(({ key }) => key))}>
              {texts.replaceAll}
            </Button>
          )}
          {isBusy ? (
            <Button variant="default" onClick={() => uploads.cancelAll()}>
              {texts.cancelAll}
            </Button>
          ) : (
            <Button variant="default" onClick={() => uploads.clear()}>
              {texts.clear}
            </Button>
          )}
        </Group>
      </Group>
      <ScrollArea.Autosize mah={260}>
        <Stack gap={6}>
          {shown.map((upload) => (
            <UploadRow key={upload.key} upload={upload} />
          ))}
        </Stack>
      </ScrollArea.Autosize>
    </Paper>
  );
}

function UploadRow({ upload }: { upload: Upload }) {
  const allTexts = useTexts();
  const texts = allTexts.files.uploads;
  const { bytes, percent } = useFormat();
  const { key, name, sizeBytes, sentBytes, state, error } = upload;
  const share = sizeBytes === 0 ? (state === 'done' ? 1 : 0) : sentBytes / sizeBytes;
  return (
    <div>
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <Text span size="sm" truncate title={upload.path}>
          {name}
        </Text>
        <Group gap={4} wrap="nowrap">
          <Text span size="xs" c={state === 'failed' ? 'red' : 'dimmed'}>
            {state === 'sending' ? `${percent(share)} · ${bytes(sizeBytes)}` : wordOf(texts, state)}
          </Text>
          {(state === 'failed' || state === 'cancelled') && (
            <ActionIcon size="sm" aria-label={texts.retry(name)} onClick={() => uploads.retry(key)}>
              <IconRefresh size={14} />
            </ActionIcon>
          )}
          {(state === 'waiting' || state === 'sending') && (
            <ActionIcon size="sm" aria-label={texts.cancel(name)} onClick={() => uploads.cancel(key)}>
              <IconX size={14} />
            </ActionIcon>
          )}
        </Group>
      </Group>
      {state === 'sending' && (
        <Progress.Root size={4}>
          <Progress.Section value={Math.round(share * 100)} aria-label={texts.progress(name)} />
        </Progress.Root>
      )}
      {state === 'asks' && (
        <Group gap={6} mt={2}>
          <Text size="xs">{texts.asks}</Text>
          <Button size="compact-xs" variant="light" onClick={() => uploads.replace([key])}>
            {texts.replace}
          </Button>
          <Button size="compact-xs" variant="default" onClick={() => uploads.cancel(key)}>
            {texts.keep}
          </Button>
        </Group>
      )}
      {state === 'failed' && (
        <Text size="xs" c="red" role="alert">
          {sentenceOf(error, allTexts)}
        </Text>
      )}
    </div>
  );
}

function wordOf(texts: ReturnType<typeof useTexts>['files']['uploads'], state: Upload['state']): string {
  if (state === 'waiting') return texts.waiting;
  if (state === 'done') return texts.done;
  return state === 'cancelled' ? texts.cancelled : '';
}
