/** Offered types with what an hour, a day and a month cost, changed in place. */
import { Button, Group, NumberInput, Stack, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { AnchorLink } from '../../parts/links.tsx';
import { Loading } from '../../parts/loading.tsx';
import { ShortTable, type ShortColumn } from '../../parts/short-table.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { preview, pricesFrom, type ManagedType } from './prices.ts';

const typesQuery = queryOptions({
  queryKey: ['types', 'welcome'],
  queryFn: async () => (await api.listTypes({ pager: { currentPage: 1, pageSize: 500 } })).types,
  select: (types) => types.filter(({ retired }) => !retired),
});

export function PricesStep() {
  const { welcome, common } = useTexts();
  const { prices } = welcome;
  const { money, size } = useFormat();
  const queries = useQueryClient();
  const types = useQuery(typesQuery);
  /** Prices of an hour that were typed and not saved yet, by type. */
  const [typed, setTyped] = useState<ReadonlyMap<string, number>>(new Map());
  const priceOf = (type: ManagedType) => {
    const perHour = typed.get(type.instanceTypeId);
    return perHour === undefined ? type.prices : pricesFrom(perHour, type.prices);
  };
  const rows = types.data ?? [];
  const changed = rows.filter((type) => priceOf(type).perHour !== type.prices.perHour);
  const save = useMutation({
    mutationFn: async () => {
      for (const type of changed)
        await api.updateType({
          instanceTypeId: type.instanceTypeId,
          version: type.version,
          prices: priceOf(type),
        });
    },
    onSuccess: () => notifications.show({ message: prices.saved, color: 'berth' }),
    onSettled: async () => {
      await queries.invalidateQueries({ queryKey: ['types'] });
      setTyped(new Map());
    },
  });
  if (types.isError) return <Trouble error={types.error} onRetry={() => void types.refetch()} />;
  if (types.data === undefined) return <Loading h={240} label={prices.list} />;
  const columns: ShortColumn<ManagedType>[] = [
    { key: 'name', title: prices.columns.name, cell: ({ name }) => name },
    {
      key: 'size',
      title: prices.columns.size,
      cell: ({ cpuCores, memoryGB, gpuNum, gpuName }) =>
        prices.size(prices.cores(cpuCores), size(memoryGB), gpuNum > 0 ? `${gpuNum} × ${gpuName}` : ''),
    },
    {
      key: 'hour',
      title: prices.columns.hour,
      align: 'right',
      cell: (type) => (
        <NumberInput
          size="xs"
          w={110}
          ml="auto"
          aria-label={prices.priceOf(type.name)}
          prefix="$"
          min={0}
          max={1_000_000}
          step={0.01}
          decimalScale={6}
          value={priceOf(type).perHour}
          onChange={(value) => typeof value === 'number' && setTyped(new Map([...typed, [type.instanceTypeId, value]]))}
        />
      ),
    },
    {
      key: 'day',
      title: prices.columns.day,
      align: 'right',
      cell: (type) => money(preview(priceOf(type)).day),
    },
    {
      key: 'month',
      title: prices.columns.month,
      align: 'right',
      cell: (type) => money(preview(priceOf(type)).month),
    },
    {
      key: 'paidMonth',
      title: prices.columns.paidMonth,
      align: 'right',
      cell: (type) => money(preview(priceOf(type)).paidMonth),
    },
  ];
  return (
    <Stack gap="sm">
      <Title order={2}>{prices.title}</Title>
      <Text size="sm" c="dimmed">
        {rows.length === 0 ? prices.none : prices.hint}
      </Text>
      {rows.length > 0 && (
        <>
          <ShortTable
            label={prices.list}
            rows={rows}
            columns={columns}
            keyOf={({ instanceTypeId }) => instanceTypeId}
          />
          <Text size="xs" c="dimmed">
            {prices.preview}
          </Text>
        </>
      )}
      {save.isError && <Trouble error={save.error} />}
      <Group justify="space-between">
        <AnchorLink size="sm" to="/operator/catalog">
          {prices.catalog}
        </AnchorLink>
        <Button disabled={changed.length === 0} loading={save.isPending} onClick={() => save.mutate()}>
          {changed.length === 0 ? common.save : prices.save(changed.length)}
        </Button>
      </Group>
    </Stack>
  );
}
