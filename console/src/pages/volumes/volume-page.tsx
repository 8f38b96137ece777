/** One volume: facts, who mounts it, snapshots and files. */
import { Alert, Box, Group, Tabs, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { Gone, isGone } from '../../parts/gone.tsx';
import { AnchorLink } from '../../parts/links.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { FilesTab } from './files/files-tab.tsx';
import { OverviewTab } from './overview-tab.tsx';
import { volumeQuery } from './queries.ts';
import { volumeTabs, type VolumeTab } from './search.ts';
import { SnapshotsTab } from './snapshots-tab.tsx';
import { VolumeActs } from './volume-acts.tsx';
import { VolumeStatus, VolumeUsage } from './volume-facts.tsx';

const route = getRouteApi('/volumes/$volumeId');

export function VolumePage() {
  const { volumes } = useTexts();
  const { volumeId } = route.useParams();
  const { tab = 'overview' } = route.useSearch();
  const goTo = useNavigate();
  const navigate = route.useNavigate();
  const details = useQuery(volumeQuery(volumeId));
  if (isGone(details.error)) return <Gone {...volumes.gone} to="/volumes" list={volumes.title} />;
  if (details.data === undefined)
    return details.isError ? (
      <Trouble error={details.error} onRetry={() => void details.refetch()} />
    ) : (
      <Loading h={360} label={volumes.title} />
    );
  const { volume, operation } = details.data;
  const show = (next: string | null): void => {
    const known = volumeTabs.find((one): one is Exclude<VolumeTab, 'overview'> => one === next && one !== 'overview');
    void navigate({ search: { tab: known } });
  };
  return (
    <>
      <AnchorLink to="/volumes" size="xs" c="dimmed">
        {volumes.title}
      </AnchorLink>
      <Group justify="space-between" gap="xs" mb="xs">
        <Group gap="sm" miw={0}>
          <Title order={1} style={{ overflowWrap: 'anywhere' }}>
            {volume.volumeName}
          </Title>
          <VolumeStatus volume={volume} />
        </Group>
        <VolumeActs volume={volume} isOnPage onGone={() => void goTo({ to: '/volumes' })} />
      </Group>
      <Box mb="sm" maw={360}>
        <VolumeUsage volume={volume} />
      </Box>
      {operation.error !== null && (
        <Alert color="red" variant="light" mb="sm" role="status">
          <Text size="sm">{operation.error.message}</Text>
          <Text size="sm">{operation.error.whatToDo}</Text>
        </Alert>
      )}
      <Tabs value={tab} onChange={show} keepMounted={false}>
        <Tabs.List mb="sm">
          {volumeTabs.map((one) => (
            <Tabs.Tab px={{ base: 10, sm: 'md' }} key={one} value={one}>
              {volumes.tabs[one]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="overview">
          <OverviewTab details={details.data} />
        </Tabs.Panel>
        <Tabs.Panel value="files">
          <FilesTab volume={volume} />
        </Tabs.Panel>
        <Tabs.Panel value="snapshots">
          <SnapshotsTab details={details.data} />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
