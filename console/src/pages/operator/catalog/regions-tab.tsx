/** Regions: facts, off-peak windows, prices of storage, and the engine of those that were added. */
import { Badge, Button, Group, Paper, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useFormat } from '../../../app/format.ts';
import { regionsQuery } from '../../../app/queries.ts';
import { useSession } from '../../../app/session.ts';
import { Facts } from '../../../parts/facts.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { StateWord } from '../../../parts/state-word.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { OffPeakClock } from '../../launch/off-peak-clock.tsx';
import { EngineModal } from './engine-modal.tsx';
import { OffPeakModal } from './off-peak-modal.tsx';
import { managedRegionsQuery, type ManagedRegion } from './queries.ts';
import { RegionFactsModal } from './region-facts-modal.tsx';
import { RetireModal } from './retire-modal.tsx';
import { StorageKinds, StoragePriceModal } from './storage-price-modal.tsx';

const acts = ['facts', 'offPeak', 'storage', 'engine', 'retire'] as const;
type Act = (typeof acts)[number];

export function RegionsTab() {
  const { catalog } = useTexts();
  const { isAdmin } = useSession();
  const regions = useQuery(managedRegionsQuery);
  const [isAdding, setAdding] = useState(false);
  const [open, setOpen] = useState<{ act: Act; region: ManagedRegion }>();
  if (regions.isError) return <Trouble error={regions.error} onRetry={() => void regions.refetch()} />;
  if (regions.data === undefined) return <Loading h={320} label={catalog.tabs.regions} />;
  const close = (): void => setOpen(undefined);
  return (
    <Stack gap="md">
      {isAdmin && (
        <Group>
          <Button leftSection={<IconPlus size={14} />} onClick={() => setAdding(true)}>
            {catalog.newRegion}
          </Button>
        </Group>
      )}
      {regions.data.map((region) => (
        <RegionCard key={region.regionId} region={region} onAct={(act) => setOpen({ act, region })} />
      ))}
      {isAdding && <EngineModal onClose={() => setAdding(false)} />}
      {open?.act === 'facts' && <RegionFactsModal region={open.region} onClose={close} />}
      {open?.act === 'offPeak' && <OffPeakModal region={open.region} onClose={close} />}
      {open?.act === 'storage' && <StoragePriceModal region={open.region} onClose={close} />}
      {open?.act === 'engine' && <EngineModal region={open.region} onClose={close} />}
      {open?.act === 'retire' && (
        <RetireModal kind="region" row={{ ...open.region, id: open.region.regionId }} onClose={close} />
      )}
    </Stack>
  );
}

function RegionCard({ region, onAct }: { region: ManagedRegion; onAct: (act: Act) => void }) {
  const { catalog } = useTexts();
  const { isAdmin } = useSession();
  const { money } = useFormat();
  const engine = useQuery(regionsQuery).data?.find(({ regionId }) => regionId === region.regionId)?.engine;
  const { name, value, location, domain, domainFrom, sshAddress, settings, offPeak, storagePrices, retired } = region;
  // The engine of this machine's region is in the settings of the server.
  const shown = acts.filter((act) => act !== 'engine' || settings !== null);
  return (
    <Paper withBorder p="md">
      <Group gap="sm" mb="xs">
        <Title order={2}>{name}</Title>
        {retired && (
          <Badge size="sm" color="gray">
            {catalog.retired}
          </Badge>
        )}
        {engine && (
          <StateWord
            kind={engine.answers ? 'good' : 'bad'}
            word={engine.answers ? engine.name : catalog.engineSilent}
            why={engine.text}
          />
        )}
      </Group>
      <SimpleGrid cols={{ base: 1, md: 3 }} spacing="md">
        <Facts
          facts={[
            [catalog.facts.value, value],
            [catalog.facts.location, location],
            [catalog.facts.domain, `${domain} (${catalog.domainFrom[domainFrom]})`],
            [catalog.facts.sshAddress, sshAddress],
            ...(settings === null
              ? [[catalog.facts.engine, catalog.localEngine] as const]
              : [
                  [catalog.facts.engine, engineKindOf(settings)] as const,
                  [
                    catalog.facts.pools,
                    settings.pools.map(({ name: pool, sizeGB }) => `${pool} ${sizeGB} GB`).join(', '),
                  ] as const,
                  [catalog.facts.nodePorts, `${settings.nodePorts.first}–${settings.nodePorts.last}`] as const,
                  [
                    catalog.facts.credentials,
                    region.hasCredentials ? catalog.credentialsSet : catalog.noCredentials,
                  ] as const,
                ]),
          ]}
        />
        <Facts
          facts={StorageKinds.map((kind) => [catalog.storage[kind], catalog.perGBMonth(money(storagePrices[kind]))])}
        />
        {offPeak === null ? (
          <Text size="sm" c="dimmed">
            {catalog.noOffPeak}
          </Text>
        ) : (
          <OffPeakClock offPeak={offPeak} />
        )}
      </SimpleGrid>
      {isAdmin && (
        <Group gap={4} mt="sm">
          {shown.map((act) => (
            <Button
              key={act}
              variant={act === 'retire' ? 'subtle' : 'default'}
              color={act === 'retire' && !retired ? 'red' : undefined}
              aria-label={`${act === 'retire' && retired ? catalog.offerAgain : catalog.regionActs[act]}: ${name}`}
              onClick={() => onAct(act)}
            >
              {act === 'retire' && retired ? catalog.offerAgain : catalog.regionActs[act]}
            </Button>
          ))}
        </Group>
      )}
    </Paper>
  );
}

const engineKindOf = (settings: NonNullable<ManagedRegion['settings']>): string => {
  if (settings.kubernetes) return `Kubernetes, ${settings.kubernetes.namespace}`;
  return settings.docker ? `Docker, ${settings.docker.endpoint}` : 'Simulation';
};
