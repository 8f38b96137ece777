/** What the instance is made of. */
import { Group, Paper, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { useFormat } from '../../app/format.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import classes from './instance.module.css';
import type { InstanceView } from './queries.ts';

export function FactsCard({ view: { instance, billing } }: { view: InstanceView }) {
  const texts = useTexts();
  const { facts } = texts.instance;
  const { launch, common } = texts;
  const { money, moment } = useFormat();
  const { instanceSpecInfo: spec, instanceRuntimeInfo: runtime, withoutGpu, pendingChanges } = instance;
  const { instanceTypeInfo: type, instanceBillingInfo: paid } = spec;
  const hasGpu = type.gpu.amount > 0;
  const size = [
    hasGpu ? `${type.gpu.amount} × ${type.gpu.type}` : '',
    launch.cores(type.cpu.amount),
    common.gb(type.memory.amount),
  ].filter((part) => part !== '');
  const mode = launch.modes[paid.chargeMode];
  const lines: [string, ReactNode][] = [
    [
      facts.type,
      <>
        {type.instanceTypeName} · {size.join(' · ')}
        {withoutGpu && ` · ${texts.instances.withoutGpu}`}
        {spec.isSpotInstance && ` · ${texts.instances.spot}`}
      </>,
    ],
    ...(pendingChanges?.instanceType
      ? [[facts.nextType, `${pendingChanges.instanceType.instanceTypeName} · ${facts.atNextStart}`] as [string, string]]
      : []),
    [facts.image, spec.imageInfo.name || common.never],
    [facts.price, `${money(paid.price)} ${mode.unit} · ${mode.name}`],
    ...(billing.paidTime?.endsAtUnixMs
      ? [
          [
            facts.paidUntil,
            `${moment(billing.paidTime.endsAtUnixMs)} · ${billing.autoRenew ? facts.renews : facts.renewsNot}`,
          ] as [string, string],
        ]
      : []),
    [facts.region, spec.regionInfo.name],
    [facts.docker, spec.instanceConfiguration.enableDocker ? facts.yes : facts.no],
    [facts.created, <RelativeTime key="created" atMs={runtime.createAtUnixMs} />],
    [
      facts.id,
      <Group key="id" gap={4} wrap="nowrap">
        <Text span ff="monospace" size="xs">
          {idOf(instance)}
        </Text>
        <CopyButton value={idOf(instance)} />
      </Group>,
    ],
    ...(instance.notebook === null
      ? []
      : [[facts.notebook, facts.notebookStates[instance.notebook.state]] as [string, string]]),
    ...(runtime.message === '' ? [] : [[facts.message, runtime.message] as [string, string]]),
  ];
  return (
    <Paper withBorder p="md">
      <Title order={2} mb="xs">
        {facts.title}
      </Title>
      <dl className={classes.facts}>
        {lines.map(([name, value]) => (
          <Fact key={name} name={name}>
            {value}
          </Fact>
        ))}
      </dl>
    </Paper>
  );
}

const Fact = ({ name, children }: { name: string; children: ReactNode }) => (
  <>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </>
);
