/** What instances may connect to: of a region, or of one account. */
import { Button, Code, Group, NativeSelect, Stack, Text, Textarea } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { egressModes } from '../../../../src/contract/statuses.ts';
import { api } from '../../app/api.ts';
import { ActModal } from '../../parts/act-modal.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { linesOfRanges, rangesOf } from './egress-lines.ts';

export type Policy = AnswerOf<'getEgress'>['policy'];
type Holder = { regionId: string } | { account: string };

export function EgressPanel({ holder }: { holder: Holder }) {
  const { operator } = useTexts();
  const found = useQuery({ queryKey: ['egress', holder], queryFn: () => api.getEgress(holder) });
  const [isOpen, setOpen] = useState(false);
  if (found.isError) return <Trouble error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <Loading h={60} label={operator.egress} />;
  const { policy } = found.data;
  const ofAccount = 'account' in holder;
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm">
        {policy === null
          ? ofAccount
            ? operator.egressOfRegion
            : operator.egressModes.open
          : operator.egressModes[policy.mode]}
      </Text>
      {policy?.allow !== undefined && policy.allow.length > 0 && <Code block>{linesOfRanges(policy.allow)}</Code>}
      <Button variant="default" onClick={() => setOpen(true)}>
        {operator.change}
      </Button>
      {isOpen && <EgressModal holder={holder} policy={policy} onClose={() => setOpen(false)} />}
    </Stack>
  );
}

function EgressModal({ holder, policy, onClose }: { holder: Holder; policy: Policy; onClose: () => void }) {
  const { operator, common } = useTexts();
  const [mode, setMode] = useState<string>(policy?.mode ?? '');
  const [lines, setLines] = useState(linesOfRanges(policy?.allow ?? []));
  const known = egressModes.find((one) => one === mode);
  return (
    <ActModal
      title={operator.egress}
      label={common.save}
      stale={['egress']}
      onClose={onClose}
      act={() =>
        api.setEgress({
          ...holder,
          policy:
            known === undefined ? null : known === 'list' ? { mode: known, allow: rangesOf(lines) } : { mode: known },
        })
      }
    >
      <NativeSelect
        data-autofocus
        label={operator.egressMode}
        value={mode}
        onChange={({ currentTarget }) => setMode(currentTarget.value)}
        data={[
          { value: '', label: 'account' in holder ? operator.egressOfRegion : operator.egressModes.open },
          ...egressModes
            .filter((one) => 'account' in holder || one !== 'open')
            .map((value) => ({ value, label: operator.egressModes[value] })),
        ]}
      />
      {known === 'list' && (
        <Textarea
          label={operator.ranges}
          description={operator.rangesHint}
          autosize
          minRows={4}
          value={lines}
          onChange={({ currentTarget }) => setLines(currentTarget.value)}
        />
      )}
      <Group>
        <Text size="xs" c="dimmed">
          {operator.egressHint}
        </Text>
      </Group>
    </ActModal>
  );
}
