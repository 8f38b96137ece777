/** A region as a card: engine, drain, capacity, GPUs, pools, and what would fit now. */
import { Alert, Badge, Button, Group, Paper, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { IconHandStop } from '@tabler/icons-react';
import { useState } from 'react';
import { useFormat } from '../../../app/format.ts';
import { ButtonLink } from '../../../parts/links.tsx';
import { ShortTable } from '../../../parts/short-table.tsx';
import { StateWord } from '../../../parts/state-word.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { CapacityBar } from './capacity-bar.tsx';
import { DrainModal } from './drain-modal.tsx';
import { GpuCells } from './gpu-cells.tsx';
import type { FleetGpu, FleetRegion } from './query.ts';

const resources = ['cpuCores', 'memoryGB', 'gpuNum', 'nodePorts'] as const;

interface RegionCardProps {
  region: FleetRegion;
  onCard: (gpu: FleetGpu) => void;
}

export function RegionCard({ region, onCard }: RegionCardProps) {
  const { fleet, catalog, common } = useTexts();
  const { count, dateTime } = useFormat();
  const [isDraining, setDraining] = useState(false);
  const { regionName, engine, drain, retired, holding, waiting, gpus, pools, types, largestHosts, presentHosts } =
    region;
  const amount = (value: number): string => count(Math.round(value * 10) / 10);
  const hostText = ({ cpuCores, memoryGB, gpuNum, gpuName }: FleetRegion['largestHosts'][number]): string =>
    fleet.host(amount(cpuCores), common.gb(memoryGB), gpuNum, gpuName);
  return (
    <Paper withBorder p="md">
      <Group gap="sm" mb="xs" justify="space-between">
        <Group gap="sm">
          <Title order={2}>{regionName}</Title>
          <StateWord
            kind={engine.answers ? 'good' : 'bad'}
            word={engine.answers ? engine.name : catalog.engineSilent}
            why={engine.text}
          />
          {retired && (
            <Badge size="sm" color="gray">
              {catalog.retired}
            </Badge>
          )}
          <Text size="sm" c="dimmed">
            {fleet.holding(holding, waiting)}
          </Text>
        </Group>
        <Group gap={4}>
          <ButtonLink variant="default" to="/operator/fleet" search={{ tab: 'instances' }}>
            {fleet.tabs.instances}
          </ButtonLink>
          <Button
            variant="default"
            leftSection={<IconHandStop size={14} />}
            aria-label={`${drain === null ? fleet.drain : fleet.endDrain}: ${regionName}`}
            onClick={() => setDraining(true)}
          >
            {drain === null ? fleet.drain : fleet.endDrain}
          </Button>
        </Group>
      </Group>
      {drain !== null && (
        <Alert color="yellow" variant="light" mb="sm" py={6} icon={<IconHandStop size={16} />}>
          {[
            fleet.drained(drain.reason, dateTime(drain.sinceUnixMs)),
            ...(drain.stopsAtUnixMs === null ? [] : [fleet.drainStops(dateTime(drain.stopsAtUnixMs))]),
          ].join(' ')}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="lg">
        <Stack gap="xs">
          <Title order={3}>{fleet.capacity}</Title>
          {resources
            .filter((name) => region[name].total > 0)
            .map((name) => {
              const { total, promised, used, free } = region[name];
              return (
                <CapacityBar
                  key={name}
                  name={fleet.resources[name]}
                  total={total}
                  promised={promised}
                  used={used}
                  text={fleet.promisedOf(amount(promised), amount(total), amount(free))}
                  {...(used === null ? {} : { usedText: fleet.inUse(amount(used)) })}
                />
              );
            })}
          {largestHosts.length > 0 && (
            <Text size="xs" c="dimmed">
              {fleet.largestHosts(largestHosts.map(hostText).join(', '))}
            </Text>
          )}
          {presentHosts !== null && (
            <Text size="xs" c="dimmed">
              {fleet.presentHosts(hostText(presentHosts))}
            </Text>
          )}
          <Title order={3} mt="xs">
            {fleet.pools}
          </Title>
          {pools.map(({ name, totalGB, promisedGB, usedGB, freeGB, fileSystemGB, fileSystemFreeGB }) => (
            <div key={name}>
              <CapacityBar
                name={name}
                total={totalGB}
                promised={promisedGB}
                used={usedGB}
                text={fleet.promisedOf(common.gb(promisedGB), common.gb(totalGB), common.gb(freeGB))}
                usedText={fleet.written(common.gb(usedGB))}
              />
              {fileSystemGB !== null && fileSystemFreeGB !== null && (
                <Text size="xs" c="dimmed">
                  {fleet.fileSystem(common.gb(fileSystemFreeGB), common.gb(fileSystemGB))}
                </Text>
              )}
            </div>
          ))}
          <Group>
            <ButtonLink variant="default" to="/operator/fleet" search={{ tab: 'disks' }}>
              {fleet.whoFills}
            </ButtonLink>
          </Group>
          <Title order={3} mt="xs">
            {fleet.fits}
          </Title>
          {types.length === 0 ? (
            <Text size="sm" c="dimmed">
              {catalog.noTypes.title}
            </Text>
          ) : (
            <ShortTable
              label={fleet.fits}
              rows={types}
              keyOf={({ instanceTypeId, isSpot }) => `${instanceTypeId} ${isSpot}`}
              columns={[
                {
                  key: 'name',
                  title: fleet.columns.type,
                  cell: ({ instanceTypeName, isSpot }) =>
                    isSpot ? `${instanceTypeName} · ${catalog.spot}` : instanceTypeName,
                },
                {
                  key: 'gpus',
                  title: fleet.columns.gpus,
                  cell: ({ gpuNum, gpuName }) =>
                    gpuNum === 0 ? '–' : `${gpuNum} × ${gpuName === '' ? 'GPU' : gpuName}`,
                },
                {
                  key: 'fits',
                  title: fleet.columns.fits,
                  align: 'right',
                  cell: ({ fitsNow }) =>
                    fitsNow === 0 ? <StateWord kind="rests" word={fleet.noneFits} /> : fleet.more(count(fitsNow)),
                },
              ]}
            />
          )}
        </Stack>
        <Stack gap="xs">
          {gpus.length > 0 && (
            <>
              <Title order={3}>{fleet.gpus}</Title>
              <GpuCells gpus={gpus} onOpen={onCard} />
            </>
          )}
        </Stack>
      </SimpleGrid>
      {isDraining && <DrainModal region={region} onClose={() => setDraining(false)} />}
    </Paper>
  );
}
