/** Grows the data disk and the Docker disk; both grow while the instance runs. */
import { Button, Group, NumberInput, Paper, Stack, Text, Title } from '@mantine/core';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import type { InstanceView } from './queries.ts';
import { useChange } from './use-change.ts';

type Grown = 'dataDiskGB' | 'dockerStorageSize';

export function ExpandForm({ view: { instance } }: { view: InstanceView }) {
  const { storage } = useTexts().instance;
  const {
    InstanceDiskAmountRequest: sizes,
    dockerStorageSize,
    enableDocker,
  } = instance.instanceSpecInfo.instanceConfiguration;
  return (
    <Paper withBorder p="md">
      <Title order={2} mb={4}>
        {storage.expand}
      </Title>
      <Text size="xs" c="dimmed" mb="xs">
        {storage.expandHint}
      </Text>
      <Stack gap="sm">
        <Growth instanceId={idOf(instance)} field="dataDiskGB" nowGB={sizes.dataDiskAmountGiReq} />
        {enableDocker && <Growth instanceId={idOf(instance)} field="dockerStorageSize" nowGB={dockerStorageSize} />}
      </Stack>
    </Paper>
  );
}

function Growth({ instanceId, field, nowGB }: { instanceId: string; field: Grown; nowGB: number }) {
  const { instance, common } = useTexts();
  const { storage } = instance;
  const [sizeGB, setSizeGB] = useState<number | string>('');
  const expand = useChange(
    (wanted: number) => api.expandDisk({ instanceId, [field]: wanted }),
    () => storage.expands,
  );
  const wanted = Number(sizeGB);
  return (
    <Group gap="xs" align="flex-end">
      <NumberInput
        size="xs"
        w={220}
        label={storage.grown[field](common.gb(nowGB))}
        placeholder={String(nowGB * 2)}
        min={nowGB + 1}
        allowDecimal={false}
        suffix=" GB"
        value={sizeGB}
        onChange={setSizeGB}
      />
      <Button
        variant="default"
        disabled={!(wanted > nowGB)}
        loading={expand.isPending}
        onClick={() => expand.mutate(wanted, { onSuccess: () => setSizeGB('') })}
      >
        {storage.expandAct}
      </Button>
    </Group>
  );
}
