/** Makes a link that opens a port without a login, for a time. */
import { Button, Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Dialog } from '../../parts/dialog.tsx';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { CopyLine } from './copy-line.tsx';
import { sharesQuery } from './queries.ts';

const HOUR_S = 3_600;
const lives = { hour: HOUR_S, day: 24 * HOUR_S, week: 7 * 24 * HOUR_S, month: 30 * 24 * HOUR_S } as const;
type Life = keyof typeof lives;
const lifeNames: readonly Life[] = ['hour', 'day', 'week', 'month'];

export function ShareModal({ instanceId, port, onClose }: { instanceId: string; port: number; onClose: () => void }) {
  const { instance, common } = useTexts();
  const { shares: texts } = instance;
  const { dateTime } = useFormat();
  const queries = useQueryClient();
  const [life, setLife] = useState<Life>('day');
  const [name, setName] = useState('');
  const share = useMutation({
    mutationFn: () =>
      api.sharePort({
        instanceId,
        port,
        seconds: lives[life],
        ...(name.trim() === '' ? {} : { name: name.trim() }),
      }),
    onSuccess: () => queries.invalidateQueries({ queryKey: sharesQuery(instanceId).queryKey }),
  });
  return (
    <Dialog onClose={onClose} title={texts.shareTitle(port)} closeButtonProps={{ 'aria-label': common.close }}>
      {share.data ? (
        <Stack gap="sm">
          <CopyLine label={texts.link} value={share.data.url} />
          <Text size="sm">{texts.linkOnce(dateTime(share.data.expiresAtUnixMs))}</Text>
          <Group justify="flex-end">
            <Button onClick={onClose}>{common.close}</Button>
          </Group>
        </Stack>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            share.mutate();
          }}
        >
          <Stack gap="sm">
            <Text size="sm">{texts.shareHint}</Text>
            <NativeSelect
              data-autofocus
              label={texts.life}
              value={life}
              onChange={({ currentTarget }) => setLife(lifeNames.find((one) => one === currentTarget.value) ?? 'day')}
              data={lifeNames.map((value) => ({ value, label: texts.lives[value] }))}
            />
            <TextInput
              label={texts.name}
              description={texts.nameHint}
              maxLength={64}
              value={name}
              onChange={({ currentTarget }) => setName(currentTarget.value)}
            />
            {share.isError && <Trouble error={share.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={onClose}>
                {common.cancel}
              </Button>
              <Button type="submit" loading={share.isPending}>
                {texts.make}
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Dialog>
  );
}
