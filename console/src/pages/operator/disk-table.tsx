/** Instances and volumes with what each wrote, and the acts of an operator on an instance. */
import { Button, Group, Text } from '@mantine/core';
import { IconDatabase, IconServer } from '@tabler/icons-react';
import { useState } from 'react';
import { ShortTable } from '../../parts/short-table.tsx';
import { StatusMark } from '../../parts/status-mark.tsx';
import { UsageBar } from '../../parts/usage-bar.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { VolumeStatus } from '../volumes/volume-facts.tsx';
import { ActOnInstances, type OperatorAct } from './act-on-instances.tsx';
import type { DiskItem } from './disk-use.ts';

export function DiskTable({ items, withOwner = false }: { items: readonly DiskItem[]; withOwner?: boolean }) {
  const { operator, common } = useTexts();
  const [act, setAct] = useState<{ act: OperatorAct; item: DiskItem }>();
  return (
    <>
      <ShortTable
        label={operator.disks}
        rows={items}
        keyOf={({ id }) => id}
        columns={[
          {
            key: 'name',
            title: operator.columns.name,
            cell: ({ kind, name, username }) => {
              const Icon = kind === 'instance' ? IconServer : IconDatabase;
              return (
                <Group gap={6} wrap="nowrap">
                  <Icon size={15} stroke={1.6} role="img" aria-label={operator.kinds[kind]} />
                  <Text span size="sm" truncate>
                    {name}
                  </Text>
                  {withOwner && (
                    <Text span size="xs" c="dimmed" truncate>
                      {username}
                    </Text>
                  )}
                </Group>
              );
            },
          },
          {
            key: 'state',
            title: operator.columns.status,
            cell: (item) => (item.instance ? <StatusMark instance={item.instance} /> : <VolumeStatus volume={item} />),
          },
          {
            key: 'used',
            title: operator.columns.written,
            cell: ({ usedGB, sizeGB }) => (
              <UsageBar
                used={usedGB}
                limit={sizeGB}
                label={operator.columns.written}
                text={operator.usedOf(common.gb(usedGB), common.gb(sizeGB))}
              />
            ),
          },
          {
            key: 'acts',
            title: '',
            align: 'right',
            cell: (item) => item.instance && <InstanceActs item={item} onAct={(one) => setAct({ act: one, item })} />,
          },
        ]}
      />
      {act && <ActOnInstances act={act.act} items={[act.item]} onClose={() => setAct(undefined)} />}
    </>
  );
}

/** What the status allows; an operator needs a reason for each. */
export function InstanceActs({ item, onAct }: { item: DiskItem; onAct: (act: OperatorAct) => void }) {
  const { instances } = useTexts();
  const allowed = item.instance?.actions ?? [];
  const shown: readonly OperatorAct[] = allowed.includes('stop') ? ['stop', 'terminate'] : ['start', 'terminate'];
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      {shown
        .filter((name) => allowed.includes(name))
        .map((name) => (
          <Button
            key={name}
            variant={name === 'terminate' ? 'subtle' : 'default'}
            color={name === 'terminate' ? 'red' : undefined}
            aria-label={`${instances.acts[name]} ${item.name}`}
            onClick={() => onAct(name)}
          >
            {instances.acts[name]}
          </Button>
        ))}
    </Group>
  );
}
