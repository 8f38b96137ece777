/** Vouchers and credits of the account, with what is left. */
import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { typeNamesQuery } from './queries.ts';

type Grant = Awaited<ReturnType<typeof api.listGrants>>['grants'][number];

export function CreditsTab() {
  const { billing } = useTexts();
  const { money, dateTime } = useFormat();
  const types = useQuery(typeNamesQuery).data;
  const pays = ({ scope: { instanceTypeId, meter, regionId } }: Grant): string =>
    [
      ...(instanceTypeId === null ? [] : [types?.get(instanceTypeId) ?? instanceTypeId]),
      ...(meter === null ? [] : [billing.meterName(meter)]),
      ...(regionId === null ? [] : [regionId]),
    ].join(', ') || billing.everything;
  const expiry = ({ expiresAtUnixMs }: Grant): string =>
    expiresAtUnixMs === null ? billing.noExpiry : dateTime(expiresAtUnixMs);
  return (
    <PagedTable
      label={billing.tabs.credits}
      queryKey={['billing', 'grants']}
      fetchPage={async (pager) => {
        const { grants, pager: found } = await api.listGrants({ pager });
        return { rows: grants, total: found.totalEntries };
      }}
      keyOf={({ grantId }) => grantId}
      columns={[
        { key: 'kind', title: billing.columns.kind, width: '90px', cell: ({ kind }) => billing.grantName(kind) },
        { key: 'reason', title: billing.columns.reason, width: 'minmax(140px, 2fr)', cell: ({ reason }) => reason },
        { key: 'pays', title: billing.columns.pays, width: 'minmax(120px, 1fr)', cell: pays },
        { key: 'expires', title: billing.columns.expires, width: '190px', cell: expiry },
        {
          key: 'given',
          title: billing.columns.given,
          width: '100px',
          align: 'right',
          cell: ({ amount }) => money(amount),
        },
        { key: 'left', title: billing.columns.left, width: '100px', align: 'right', cell: ({ left }) => money(left) },
      ]}
      cardPx={104}
      card={(grant) => (
        <>
          <Text size="sm" fw={600}>
            {billing.grantName(grant.kind)} · {billing.leftOf(money(grant.left), money(grant.amount))}
          </Text>
          <Text size="sm" truncate>
            {grant.reason}
          </Text>
          <Text size="xs" c="dimmed">
            {pays(grant)} · {expiry(grant)}
          </Text>
        </>
      )}
      empty={<EmptyState {...billing.noCredits} />}
    />
  );
}
