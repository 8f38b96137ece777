/** History of prices, with those that are set for later and can be withdrawn. */
import { Badge, Button, Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { useSession } from '../../../app/session.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { PagedTable } from '../../../parts/paged-table.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { CATALOG_STALE, managedRegionsQuery, typesQuery, type PriceChange } from './queries.ts';

export function PricesTab({
  typeId,
  onType,
}: {
  typeId: string | undefined;
  onType: (id: string | undefined) => void;
}) {
  const { catalog } = useTexts();
  const { money, dateTime } = useFormat();
  const { isAdmin } = useSession();
  const types = useQuery(typesQuery).data ?? [];
  const regions = useQuery(managedRegionsQuery).data ?? [];
  const [withdrawn, setWithdrawn] = useState<PriceChange>();
  const nameOf = ({ instanceTypeId, regionId }: PriceChange): string =>
    instanceTypeId === null
      ? catalog.storageOf(regions.find((region) => region.regionId === regionId)?.name ?? regionId)
      : (types.find((type) => type.instanceTypeId === instanceTypeId)?.name ?? instanceTypeId);
  const priceOf = ({ prices, storagePrices }: PriceChange): string => {
    if (prices) return catalog.threePrices(money(prices.perHour), money(prices.perDay), money(prices.perMonth));
    return storagePrices ? catalog.perGB(money(storagePrices.filesystem), money(storagePrices.snapshot)) : '';
  };
  const acts = (change: PriceChange) =>
    change.scheduled &&
    isAdmin && (
      <Button
        variant="default"
        aria-label={`${catalog.withdraw}: ${nameOf(change)}`}
        onClick={() => setWithdrawn(change)}
      >
        {catalog.withdraw}
      </Button>
    );
  const when = (change: PriceChange) => (
    <Group gap={6} wrap="nowrap">
      <Text span size="sm">
        {dateTime(change.fromUnixMs)}
      </Text>
      {change.scheduled && (
        <Badge size="sm" tt="none" variant="light">
          {catalog.scheduled}
        </Badge>
      )}
    </Group>
  );
  const by = ({ byAccountId }: PriceChange): string => (byAccountId === null ? 'Berth' : catalog.byAdministrator);
  return (
    <>
      {typeId !== undefined && (
        <Group mb="xs" gap="xs">
          <Text size="sm">{catalog.onlyOf(types.find((type) => type.instanceTypeId === typeId)?.name ?? typeId)}</Text>
          <Button variant="default" onClick={() => onType(undefined)}>
            {catalog.allPrices}
          </Button>
        </Group>
      )}
      <PagedTable
        label={catalog.tabs.prices}
        queryKey={['prices', 'history', typeId]}
        fetchPage={async (pager) => {
          const answer = await api.listPriceChanges({
            pager,
            ...(typeId === undefined ? {} : { instanceTypeId: typeId }),
          });
          return { rows: answer.changes, total: answer.pager.totalEntries };
        }}
        keyOf={({ fromUnixMs, regionId, instanceTypeId, scheduled }) =>
          `${fromUnixMs} ${regionId} ${instanceTypeId} ${scheduled}`
        }
        columns={[
          { key: 'from', title: catalog.from, width: 'minmax(200px, 1fr)', cell: when },
          { key: 'what', title: catalog.columns.name, width: 'minmax(110px, 1fr)', cell: nameOf },
          { key: 'prices', title: catalog.price, width: 'minmax(220px, 2fr)', cell: priceOf },
          { key: 'by', title: catalog.columns.by, width: '130px', cell: by },
          { key: 'acts', title: '', width: '110px', align: 'right', cell: acts },
        ]}
        cardPx={116}
        card={(change) => (
          <Stack gap={4}>
            <Group justify="space-between" wrap="nowrap">
              <Text span size="sm" fw={600}>
                {nameOf(change)}
              </Text>
              {acts(change)}
            </Group>
            {when(change)}
            <Text size="sm">{priceOf(change)}</Text>
            <Text size="xs" c="dimmed">
              {by(change)}
            </Text>
          </Stack>
        )}
        empty={<EmptyState {...catalog.noPrices} />}
      />
      {withdrawn && (
        <ActModal
          title={catalog.withdrawTitle(nameOf(withdrawn))}
          label={catalog.withdraw}
          isDestructive
          stale={CATALOG_STALE}
          onClose={() => setWithdrawn(undefined)}
          act={() =>
            api.withdrawPrices({
              regionId: withdrawn.regionId,
              ...(withdrawn.instanceTypeId === null ? {} : { instanceTypeId: withdrawn.instanceTypeId }),
              fromUnixMs: withdrawn.fromUnixMs,
            })
          }
        >
          <Text size="sm">{catalog.withdrawHint(dateTime(withdrawn.fromUnixMs))}</Text>
        </ActModal>
      )}
    </>
  );
}
