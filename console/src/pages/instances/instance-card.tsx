/** An instance on a phone. */
import { Group, Stack, Text } from '@mantine/core';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { StatusMark } from '../../parts/status-mark.tsx';
import { idOf } from './allowed-acts.ts';
import { InstanceName, TypeName } from './columns.tsx';
import { CostToday, Load } from './figures.tsx';
import classes from './instances.module.css';
import { RowActs } from './row-acts.tsx';

export function InstanceCard({ instance }: { instance: InstanceObject }) {
  return (
    <Stack gap={6}>
      <Group justify="space-between" wrap="nowrap">
        <InstanceName instance={instance} />
        <span className={classes.status}>
          <StatusMark instance={instance} />
        </span>
      </Group>
      <Group justify="space-between" wrap="nowrap">
        <TypeName instance={instance} />
        <Text span size="xs" c="dimmed">
          <RelativeTime atMs={instance.instanceRuntimeInfo.createAtUnixMs} />
        </Text>
      </Group>
      <Group justify="space-between" wrap="nowrap">
        <Load instance={instance} />
        <CostToday instanceId={idOf(instance)} />
        <RowActs instance={instance} />
      </Group>
    </Stack>
  );
}
