/** Resources of this installation without a record: adopted, stopped and kept, or removed. */
import { Button, Code, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { regionsQuery } from '../../../app/queries.ts';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { RelativeTime } from '../../../parts/relative-time.tsx';
import { ShortTable } from '../../../parts/short-table.tsx';
import { StateWord } from '../../../parts/state-word.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { useFresh } from '../fresh.ts';
import { AdoptModal, KeepModal, RemoveModal, type Orphan } from './orphan-modals.tsx';

type Act = 'adopt' | 'keep' | 'remove';

export function OrphansPage() {
  const { orphans } = useTexts();
  const { duration } = useFormat();
  useFresh('orphans');
  const query = useQuery({ queryKey: ['orphans'], queryFn: async () => (await api.listStrays()).strays });
  const regions = useQuery(regionsQuery).data ?? [];
  const [open, setOpen] = useState<{ act: Act; orphan: Orphan }>();
  const title = (
    <Title order={1} mb="sm">
      {orphans.title}
    </Title>
  );
  if (query.isError)
    return (
      <>
        {title}
        <Trouble error={query.error} onRetry={() => void query.refetch()} />
      </>
    );
  if (query.data === undefined) return <Loading h={240} label={orphans.title} />;
  const close = (): void => setOpen(undefined);
  const fate = ({ deletedInSeconds, handling }: Orphan): string => {
    if (deletedInSeconds !== null) return orphans.deletedIn(duration(deletedInSeconds * 1_000));
    return handling === 'stop' ? orphans.kept : orphans.stays;
  };
  return (
    <>
      {title}
      {query.data.length === 0 ? (
        <EmptyState {...orphans.none} />
      ) : (
        <>
          <Text size="sm" c="dimmed" mb="xs">
            {orphans.hint}
          </Text>
          <ShortTable
            label={orphans.title}
            rows={query.data}
            keyOf={({ strayId }) => strayId}
            columns={[
              {
                key: 'what',
                title: orphans.columns.what,
                cell: ({ kind, engineName, imageRef, note }) => (
                  <Stack gap={2}>
                    <Text size="sm" fw={600}>
                      {orphans.kinds[kind]}
                    </Text>
                    <Code fz={11}>{engineName}</Code>
                    {imageRef !== '' && (
                      <Text size="xs" c="dimmed">
                        {imageRef}
                      </Text>
                    )}
                    {note !== '' && <Text size="xs">{note}</Text>}
                  </Stack>
                ),
              },
              {
                key: 'owner',
                title: orphans.columns.owner,
                cell: ({ ownerName, ownerId }) => (ownerName === '' ? orphans.goneOwner(ownerId) : ownerName),
              },
              {
                key: 'region',
                title: orphans.columns.region,
                cell: ({ regionId }) => regions.find((region) => region.regionId === regionId)?.name ?? regionId,
              },
              {
                key: 'state',
                title: orphans.columns.state,
                cell: (orphan) => (
                  <Stack gap={2}>
                    {orphan.kind !== 'disk' && orphan.kind !== 'image' && (
                      <StateWord
                        kind={orphan.running ? 'warns' : 'rests'}
                        word={orphan.running ? orphans.running : orphans.stopped}
                      />
                    )}
                    <Text size="xs" c="dimmed">
                      {fate(orphan)}
                    </Text>
                  </Stack>
                ),
              },
              {
                key: 'seen',
                title: orphans.columns.seen,
                cell: ({ firstSeenAt }) => <RelativeTime atMs={firstSeenAt} />,
              },
              {
                key: 'acts',
                title: '',
                align: 'right',
                cell: (orphan) => (
                  <Group gap={4} justify="flex-end">
                    {orphan.kind === 'instance' && (
                      <Button variant="default" onClick={() => setOpen({ act: 'adopt', orphan })}>
                        {orphans.adopt}
                      </Button>
                    )}
                    {orphan.handling !== 'stop' && (
                      <Button variant="default" onClick={() => setOpen({ act: 'keep', orphan })}>
                        {orphans.keep}
                      </Button>
                    )}
                    <Button variant="subtle" color="red" onClick={() => setOpen({ act: 'remove', orphan })}>
                      {orphans.remove}
                    </Button>
                  </Group>
                ),
              },
            ]}
          />
        </>
      )}
      {open?.act === 'adopt' && <AdoptModal orphan={open.orphan} onClose={close} />}
      {open?.act === 'keep' && <KeepModal orphan={open.orphan} onClose={close} />}
      {open?.act === 'remove' && <RemoveModal orphan={open.orphan} onClose={close} />}
    </>
  );
}
