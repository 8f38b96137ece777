/** Who did what, to what, and with which outcome. */
import { Anchor, Button, Code, Group, Stack, Switch, Text, TextInput, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import { api } from '../../../app/api.ts';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { FilterInput } from '../../../parts/filter-input.tsx';
import { ButtonLink } from '../../../parts/links.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { PagedTable } from '../../../parts/paged-table.tsx';
import { RelativeTime } from '../../../parts/relative-time.tsx';
import { StateWord } from '../../../parts/state-word.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { useFresh } from '../fresh.ts';
import { readAuditSearch, type AuditSearch } from '../search.ts';
import { accountIdOf } from './account-id.ts';
import { RecordModal } from './record-modal.tsx';
import { localTimeOf, timeOfLocal } from './local-time.ts';

export type AuditRecord = AnswerOf<'listAudit'>['records'][number];

const route = getRouteApi('/operator/audit');

export function AuditPage() {
  const { audit, common } = useTexts();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  useFresh('audit');
  const change = (over: AuditSearch, replace = true): void =>
    void navigate({ search: (now) => readAuditSearch({ ...now, ...over }), replace, resetScroll: false });
  const { account, route: routeName, subject, outcome, from, to, reads = false, open } = search;
  const accountId = useAccountId(account);
  const filters = {
    ...(typeof accountId === 'string' ? { accountId } : {}),
    ...(routeName === undefined ? {} : { route: routeName }),
    ...(subject === undefined ? {} : { subjectId: subject }),
    ...(outcome === undefined ? {} : { outcome }),
    ...(reads ? {} : { withoutReads: true }),
    ...(from === undefined ? {} : { fromUnixMs: from }),
    ...(to === undefined ? {} : { toUnixMs: to }),
  };
  const isFiltered = [account, routeName, subject, outcome, from, to].some((one) => one !== undefined);
  const what = (record: AuditRecord) => (
    <Anchor
      component="button"
      type="button"
      size="sm"
      ta="left"
      aria-label={audit.details(record.route, record.position)}
      onClick={() => change({ open: record.position }, false)}
    >
      {record.route}
    </Anchor>
  );
  const who = (record: AuditRecord) => (
    <Text span size="sm" truncate display="block">
      {record.username === '' ? audit.nobody : record.username}
    </Text>
  );
  const result = ({ outcome: code, count }: AuditRecord) => (
    <StateWord
      kind={code === 'ok' ? 'good' : 'bad'}
      word={count > 1 ? audit.times(code, count) : code === 'ok' ? audit.ok : code}
    />
  );
  return (
    <>
      <Title order={1} mb="sm">
        {audit.title}
      </Title>
      <Group mb="xs" gap="xs" align="flex-end">
        <FilterInput value={account} label={audit.account} onChange={(text) => change({ account: text })} />
        <FilterInput value={routeName} label={audit.route} onChange={(text) => change({ route: text })} />
        <FilterInput value={subject} label={audit.subject} onChange={(text) => change({ subject: text })} />
        <FilterInput value={outcome} label={audit.outcome} onChange={(text) => change({ outcome: text })} />
        <TextInput
          size="xs"
          type="datetime-local"
          label={audit.from}
          value={from === undefined ? '' : localTimeOf(from)}
          onChange={({ currentTarget }) => change({ from: timeOfLocal(currentTarget.value) })}
        />
        <TextInput
          size="xs"
          type="datetime-local"
          label={audit.to}
          value={to === undefined ? '' : localTimeOf(to)}
          onChange={({ currentTarget }) => change({ to: timeOfLocal(currentTarget.value) })}
        />
        <Switch
          label={audit.reads}
          checked={reads}
          onChange={({ currentTarget }) => change({ reads: currentTarget.checked || undefined })}
          pb={6}
        />
        {isFiltered && (
          <Button variant="default" onClick={() => void navigate({ search: {} })}>
            {common.clearFilters}
          </Button>
        )}
      </Group>
      {account !== undefined && accountId === undefined && <Loading label={audit.list} />}
      {accountId === null && <EmptyState {...audit.noAccount} />}
      {(account === undefined || typeof accountId === 'string') && (
        <PagedTable
          label={audit.list}
          queryKey={['audit', filters]}
          fetchPage={async (pager) => {
            const answer = await api.listAudit({ pager, ...filters });
            return { rows: answer.records, total: answer.pager.totalEntries };
          }}
          keyOf={({ position }) => String(position)}
          columns={[
            {
              key: 'time',
              title: audit.columns.time,
              width: '110px',
              cell: ({ atUnixMs }) => <RelativeTime atMs={atUnixMs} />,
            },
            { key: 'who', title: audit.columns.who, width: 'minmax(100px, 1fr)', cell: who },
            { key: 'what', title: audit.columns.what, width: 'minmax(140px, 1.2fr)', cell: what },
            {
              key: 'which',
              title: audit.columns.which,
              width: 'minmax(140px, 2fr)',
              cell: ({ subjectIds }) => (
                <Text span size="xs" ff="monospace" truncate display="block">
                  {subjectIds.join(', ')}
                </Text>
              ),
            },
            { key: 'outcome', title: audit.columns.outcome, width: 'minmax(120px, 1fr)', cell: result },
            {
              key: 'address',
              title: audit.columns.address,
              width: '130px',
              cell: ({ address }) => <Code fz={11}>{address}</Code>,
            },
          ]}
          cardPx={96}
          card={(record) => (
            <Stack gap={4}>
              <Group justify="space-between" wrap="nowrap">
                {what(record)}
                {result(record)}
              </Group>
              {who(record)}
              <Text size="xs" c="dimmed" truncate>
                <RelativeTime atMs={record.atUnixMs} /> · {record.subjectIds.join(', ')}
              </Text>
            </Stack>
          )}
          empty={
            <EmptyState title={isFiltered ? common.nothingMatches : audit.none.title} text={audit.none.text}>
              {isFiltered && (
                <ButtonLink variant="default" to="/operator/audit" search={{}}>
                  {common.clearFilters}
                </ButtonLink>
              )}
            </EmptyState>
          }
        />
      )}
      {open !== undefined && (
        <RecordModal
          position={open}
          filters={filters}
          onFilter={(over) => change({ ...over, open: undefined }, false)}
          onClose={() => change({ open: undefined })}
        />
      )}
    </>
  );
}

/** The log knows accounts by ID. Undefined before the ID is known; null: there is none. */
function useAccountId(typed: string | undefined): string | null | undefined {
  return useQuery({
    queryKey: ['accounts', 'byName', typed],
    queryFn: async () => {
      const pager = { currentPage: 1, pageSize: 500 };
      const { accounts } = await api.listAccounts({ pager, search: typed ?? '' });
      return accountIdOf(typed ?? '', accounts);
    },
    enabled: typed !== undefined,
  }).data;
}
