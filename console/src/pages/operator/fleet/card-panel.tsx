/** A GPU for operators: readings, holder, why it takes no launches, and its return. */
import { Anchor, Stack, Text, TextInput, Title } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { useSession } from '../../../app/session.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { Dialog } from '../../../parts/dialog.tsx';
import { Facts } from '../../../parts/facts.tsx';
import { AnchorLink } from '../../../parts/links.tsx';
import { RelativeTime } from '../../../parts/relative-time.tsx';
import { StateWord } from '../../../parts/state-word.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { FleetGpu, FleetRegion } from './query.ts';

const GB = 1024 ** 3;
const XIDS = 'https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html';
const STALE = ['fleet', 'catalog'];

interface CardPanelProps {
  region: FleetRegion;
  gpu: FleetGpu;
  onClose: () => void;
}

export function CardPanel({ region: { regionId, gpus }, gpu, onClose }: CardPanelProps) {
  const { fleet, operator } = useTexts();
  const [reason, setReason] = useState('');
  const { cardId, findings } = gpu;
  const title = fleet.cardTitle(gpu.index, gpu.model === '' ? 'GPU' : gpu.model);
  if (findings.length === 0)
    return (
      <Dialog title={title} onClose={onClose}>
        <CardFacts gpu={gpu} gpus={gpus} />
      </Dialog>
    );
  return (
    <ActModal
      title={title}
      label={fleet.returnCard}
      isReady={reason.trim() !== ''}
      stale={STALE}
      done={fleet.cardReturned}
      onClose={onClose}
      act={() => api.returnCard({ regionId, cardId, reason: reason.trim() })}
    >
      <CardFacts gpu={gpu} gpus={gpus} />
      <Title order={3}>{fleet.noLaunches}</Title>
      {findings.map((finding) => (
        <Finding key={finding.reason} finding={finding} />
      ))}
      <TextInput
        label={operator.reason}
        description={fleet.returnHint}
        maxLength={500}
        value={reason}
        onChange={({ currentTarget }) => setReason(currentTarget.value)}
      />
    </ActModal>
  );
}

function Finding({ finding: { reason, evidence, sinceUnixMs } }: { finding: FleetGpu['findings'][number] }) {
  const { fleet } = useTexts();
  const { what, act } = fleet.findings(reason, evidence);
  return (
    <Stack gap={2}>
      <StateWord kind="bad" word={what} />
      <Text size="xs" c="dimmed">
        {fleet.since} <RelativeTime atMs={sinceUnixMs} />
      </Text>
      <Text size="sm">{act}</Text>
      {reason.startsWith('xid ') && (
        <Anchor href={XIDS} target="_blank" rel="noreferrer" size="sm">
          {fleet.xidCatalog}
        </Anchor>
      )}
    </Stack>
  );
}

function CardFacts({ gpu, gpus }: { gpu: FleetGpu; gpus: readonly FleetGpu[] }) {
  const { fleet, common } = useTexts();
  const { percent, count } = useFormat();
  const { isAdmin } = useSession();
  const { busyPercent, memoryUsedBytes: used, memoryTotalBytes: total, powerMilliwatts, temperatureCelsius } = gpu;
  const { cardId, uuid, holder, gpuSlice, slowedBy } = gpu;
  const linked = Map.groupBy(gpu.links, ({ kind }) => kind);
  const indexesOf = (uuids: readonly string[]): string =>
    gpus.flatMap((one) => (one.uuid !== null && uuids.includes(one.uuid) ? `GPU ${one.index}` : [])).join(', ');
  const links = [...linked].map(([kind, to]) => `${kind}: ${indexesOf(to.map((one) => one.uuid))}`);
  const known = (value: number | null, text: (value: number) => string): string =>
    value === null ? fleet.unknown : text(value);
  const facts: (readonly [string, ReactNode])[] = [
    [fleet.cardFacts.model, gpu.model],
    ...(uuid === null ? [] : [[fleet.cardFacts.uuid, uuid] as const]),
    ...(uuid === cardId ? [] : [[fleet.cardFacts.name, cardId] as const]),
    [fleet.cardFacts.busy, known(busyPercent, (value) => percent(value / 100))],
    [
      fleet.cardFacts.memory,
      known(used, (value) =>
        total === null ? common.gb(value / GB) : fleet.of(common.gb(value / GB), common.gb(total / GB)),
      ),
    ],
    [fleet.cardFacts.power, known(powerMilliwatts, (value) => `${count(Math.round(value / 1_000))} W`)],
    [fleet.cardFacts.temperature, known(temperatureCelsius, (value) => `${count(value)} °C`)],
    ...(slowedBy.length === 0
      ? []
      : [[fleet.cardFacts.slowed, slowedBy.map((reason) => fleet.slowdowns[reason]).join(', ')] as const]),
    ...(gpu.driverVersion === null ? [] : [[fleet.cardFacts.driver, gpu.driverVersion] as const]),
    ...(gpu.cudaVersion === null ? [] : [[fleet.cardFacts.cuda, gpu.cudaVersion] as const]),
    ...(gpu.numaNode === null ? [] : [[fleet.cardFacts.numaNode, String(gpu.numaNode)] as const]),
    ...(links.length === 0 ? [] : [[fleet.cardFacts.links, links.join(' · ')] as const]),
    [
      fleet.cardFacts.holder,
      holder === null ? (
        fleet.noHolder
      ) : (
        <>
          <AnchorLink to="/operator/fleet" search={{ tab: 'instances', q: holder.instanceId }} size="sm">
            {holder.name}
          </AnchorLink>
          {' · '}
          {isAdmin ? (
            <AnchorLink to="/operator/accounts/$accountId" params={{ accountId: holder.accountId }} size="sm">
              {holder.username}
            </AnchorLink>
          ) : (
            holder.username
          )}
        </>
      ),
    ],
  ];
  return (
    <>
      <Facts facts={facts} />
      {gpuSlice !== undefined && (
        <Text size="xs" c="dimmed">
          {fleet.ofWholeCard}
        </Text>
      )}
      {holder !== null && !gpu.holderIsExact && (
        <Text size="xs" c="dimmed">
          {fleet.notExact}
        </Text>
      )}
    </>
  );
}
