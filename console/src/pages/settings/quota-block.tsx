/** Quotas of the account, the fullest first. */
import { Box, Group, Stack, Text } from '@mantine/core';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { UsageBar } from '../../parts/usage-bar.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { byFullness, type Quota } from './quotas.ts';

/** Use changes with what the account has, which has its own events. */
const quotasQuery = queryOptions({
  queryKey: ['quotas'],
  queryFn: async () => (await api.listQuotas()).quotas,
  refetchOnMount: 'always',
});

const TEXT_PX = 124;
const GPU_TYPE = 'gpus/';

export function QuotaBlock() {
  const { settings } = useTexts();
  const { quotas } = settings;
  const found = useQuery(quotasQuery);
  if (found.isError) return <Trouble error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <Loading h={360} label={quotas.title} />;
  return (
    <Stack gap={8}>
      <Text size="sm" c="dimmed">
        {quotas.hint}
      </Text>
      {byFullness(found.data).map((quota) => (
        <QuotaRow key={quota.name} quota={quota} />
      ))}
    </Stack>
  );
}

function QuotaRow({ quota: { name, limit, used } }: { quota: Quota }) {
  const { settings } = useTexts();
  const { quotas } = settings;
  const { count, size } = useFormat();
  const shown = name.startsWith(GPU_TYPE) ? quotas.gpuType(name.slice(GPU_TYPE.length)) : (quotas.names[name] ?? name);
  const amount = name.endsWith('GB') ? size : count;
  return (
    <Group justify="space-between" wrap="nowrap" gap="xs">
      <Text size="sm" flex={1} miw={0} style={{ overflowWrap: 'anywhere' }}>
        {shown}
      </Text>
      <Box w={{ base: 190, sm: 240 }}>
        {limit === null ? (
          <Text size="xs" c="dimmed" ml="auto" w={TEXT_PX}>
            {quotas.noLimit(amount(used ?? 0))}
          </Text>
        ) : used === null ? (
          <Text size="xs" c="dimmed" ml="auto" w={TEXT_PX}>
            {quotas.limit(amount(limit))}
          </Text>
        ) : (
          <UsageBar
            used={used}
            limit={limit}
            label={shown}
            text={quotas.used(amount(used), amount(limit))}
            textWidth={TEXT_PX}
          />
        )}
      </Box>
    </Group>
  );
}
