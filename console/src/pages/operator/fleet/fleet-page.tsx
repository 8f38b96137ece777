/**
 * Hosts of the installation: what is promised, used and free, who holds the GPUs, what would fit
 * now.
 */
import { Group, Stack, Tabs, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { DiskTable } from '../disk-table.tsx';
import { disksQuery } from '../disk-use.ts';
import { useFresh } from '../fresh.ts';
import { fleetTabs, readFleetSearch, type FleetSearch } from '../search.ts';
import { AllInstances } from './all-instances.tsx';
import { CardPanel } from './card-panel.tsx';
import { fleetQuery, type FleetGpu, type FleetRegion } from './query.ts';
import { RegionCard } from './region-card.tsx';
import { UseOverTime } from './use-over-time.tsx';

const route = getRouteApi('/operator/fleet');
const SHOWN_DISKS = 200;

const nameOf = ({ regionId }: FleetRegion, { cardId }: FleetGpu): string => `${regionId}/${cardId}`;

export function FleetPage() {
  const { fleet } = useTexts();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  useFresh('fleet', 'operatorInstances', 'operatorDisks');
  const change = (over: FleetSearch, replace = true): void =>
    void navigate({ search: (now) => readFleetSearch({ ...now, ...over }), replace, resetScroll: false });
  return (
    <>
      <Group gap="sm" mb="sm" align="baseline">
        <Title order={1}>{fleet.title}</Title>
        <Summary />
      </Group>
      <Tabs
        value={search.tab ?? 'hosts'}
        onChange={(tab) => void navigate({ search: readFleetSearch({ tab }) })}
        keepMounted={false}
      >
        <Tabs.List mb="sm">
          {fleetTabs.map((tab) => (
            <Tabs.Tab key={tab} value={tab}>
              {fleet.tabs[tab]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="hosts">
          <Hosts open={search.card} onCard={(card) => change({ card }, card === undefined)} />
        </Tabs.Panel>
        <Tabs.Panel value="use">
          <UseOverTime range={search.range ?? 'day'} onRange={(range) => change({ range })} />
        </Tabs.Panel>
        <Tabs.Panel value="instances">
          <AllInstances search={search} change={change} />
        </Tabs.Panel>
        <Tabs.Panel value="disks">
          <Disks />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}

/** The first sentence: what holds capacity, and what waits for it. */
function Summary() {
  const { fleet } = useTexts();
  const regions = useQuery(fleetQuery).data?.regions;
  if (regions === undefined) return null;
  const sum = (count: (region: FleetRegion) => number): number =>
    regions.reduce((total, region) => total + count(region), 0);
  return (
    <Text size="sm" c="dimmed">
      {fleet.summary({
        holding: sum(({ holding }) => holding),
        waiting: sum(({ waiting }) => waiting),
        gpusHeld: sum(({ gpuNum }) => gpuNum.promised),
        gpus: sum(({ gpuNum }) => gpuNum.total),
      })}
    </Text>
  );
}

interface HostsProps {
  /** GPU in the address. */
  open: string | undefined;
  onCard: (card: string | undefined) => void;
}

function Hosts({ open, onCard }: HostsProps) {
  const { fleet } = useTexts();
  const found = useQuery(fleetQuery);
  if (found.isError) return <Trouble error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <Loading h={420} label={fleet.title} />;
  const [shown] = found.data.regions.flatMap((region) =>
    region.gpus.filter((gpu) => nameOf(region, gpu) === open).map((gpu) => ({ region, gpu })),
  );
  return (
    <Stack gap="md">
      {found.data.regions.map((region) => (
        <RegionCard key={region.regionId} region={region} onCard={(gpu) => onCard(nameOf(region, gpu))} />
      ))}
      {shown && <CardPanel {...shown} onClose={() => onCard(undefined)} />}
    </Stack>
  );
}

function Disks() {
  const { fleet, accounts } = useTexts();
  const disks = useQuery(disksQuery());
  if (disks.isError) return <Trouble error={disks.error} onRetry={() => void disks.refetch()} />;
  if (disks.data === undefined) return <Loading h={240} label={fleet.tabs.disks} />;
  if (disks.data.length === 0) return <EmptyState {...accounts.noDisks} />;
  return (
    <>
      {disks.data.length > SHOWN_DISKS && (
        <Text size="sm" c="dimmed" mb="xs">
          {fleet.largestOf(SHOWN_DISKS, disks.data.length)}
        </Text>
      )}
      <DiskTable items={disks.data.slice(0, SHOWN_DISKS)} withOwner />
    </>
  );
}
