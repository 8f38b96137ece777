/**
 * An operator stops, starts or terminates instances of others, with a reason that the owner reads.
 */
import { List, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { ActModal } from '../../parts/act-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { DiskItem } from './disk-use.ts';

export type OperatorAct = 'stop' | 'start' | 'terminate';

const calls = {
  stop: api.stopAnyInstance,
  start: api.startAnyInstance,
  terminate: api.terminateAnyInstance,
} as const satisfies Record<OperatorAct, unknown>;
const SHOWN = 12;
const STALE = ['operatorDisks', 'operatorInstances', 'accounts', 'fleet'];

interface ActOnInstancesProps {
  act: OperatorAct;
  items: readonly DiskItem[];
  onClose: () => void;
}

export function ActOnInstances({ act, items, onClose }: ActOnInstancesProps) {
  const { operator, common, instances } = useTexts();
  const [reason, setReason] = useState('');
  const isLoss = act === 'terminate';
  return (
    <ActModal
      title={operator.actTitles[act](items.length === 1 ? (items[0]?.name ?? '') : operator.instances(items.length))}
      label={instances.acts[act]}
      isDestructive={isLoss}
      isReady={reason.trim() !== ''}
      stale={STALE}
      onClose={onClose}
      act={async () => {
        const done = await Promise.allSettled(
          items.map(({ id }) => calls[act]({ instanceId: id, reason: reason.trim() })),
        );
        const failed = done.find((one) => one.status === 'rejected');
        if (failed) throw failed.reason;
      }}
    >
      <List size="sm">
        {items.slice(0, SHOWN).map(({ id, name, username, usedGB }) => (
          <List.Item key={id}>
            {name} · {username}
            {isLoss && ` · ${operator.loses(common.gb(usedGB))}`}
          </List.Item>
        ))}
        {items.length > SHOWN && <List.Item>{operator.andMore(items.length - SHOWN)}</List.Item>}
      </List>
      <Text size="sm" c="dimmed">
        {operator.actStays[act]}
      </Text>
      <TextInput
        data-autofocus
        label={operator.reason}
        description={operator.reasonHint}
        maxLength={500}
        value={reason}
        onChange={({ currentTarget }) => setReason(currentTarget.value)}
      />
    </ActModal>
  );
}
