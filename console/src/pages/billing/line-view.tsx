/** The usage periods of a line, each with the events that opened and closed it. */
import { Button, Group, Text, Title } from '@mantine/core';
import { IconArrowLeft } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { meters } from '../../../../src/contract/statuses.ts';
import type { TimeSpan } from '../../../../src/contract/money/months.ts';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ButtonLink } from '../../parts/links.tsx';
import { PagedTable, type Page } from '../../parts/paged-table.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { Line } from './month.ts';
import { PeriodCard, usePeriodColumns } from './periods.tsx';
import { useLineName } from './line-name.ts';

export type Period = AnswerOf<'listUsagePeriods'>['periods'][number];

interface LineViewProps {
  line: Line;
  by: string;
  span: TimeSpan;
  onBack: () => void;
}

const PAGE = 500;
/** Groups are found among the newest periods: the API filters by resource and meter alone. */
const MOST_PAGES = 10;
const MOST_IDS = { currentPage: 1, pageSize: PAGE };

type Pick1 = (period: Period) => boolean;

/** Which periods belong to a group. */
async function memberOf(by: string, group: string): Promise<Pick1> {
  if (by === 'type') return ({ instanceTypeId }) => (instanceTypeId ?? '') === group;
  const key = by.slice('label:'.length);
  const [{ instances }, { volumeList }] = await Promise.all([
    api.listInstances({ pager: MOST_IDS, ...(group === '' ? {} : { labels: { [key]: group } }) }),
    api.listVolumes({ pager: MOST_IDS, ...(group === '' ? {} : { labels: { [key]: group } }) }),
  ]);
  const has = (labels: Record<string, string> | undefined): boolean => (labels?.[key] ?? '') === group;
  const ids = new Set([
    ...instances.filter(({ labels }) => has(labels)).map(({ instanceMetadata }) => instanceMetadata.instanceId),
    ...volumeList.filter(({ labels }) => has(labels)).map(({ id }) => id),
  ]);
  return ({ instanceId, volumeId }) => ids.has(instanceId ?? volumeId ?? '');
}

async function periodsOfGroup(by: string, group: string, between: object): Promise<Page<Period>> {
  const isMember = await memberOf(by, group);
  const rows: Period[] = [];
  for (let currentPage = 1; currentPage <= MOST_PAGES; currentPage += 1) {
    const { periods, pager } = await api.listUsagePeriods({ pager: { currentPage, pageSize: PAGE }, ...between });
    rows.push(...periods.filter(isMember));
    if (currentPage * PAGE >= pager.totalEntries) break;
  }
  return { rows, total: rows.length };
}

export function LineView({ line, by, span: { fromMs, untilMs }, onBack }: LineViewProps) {
  const { billing } = useTexts();
  const { money, duration } = useFormat();
  const nameOf = useLineName(by);
  const columns = usePeriodColumns(line.subjectId === undefined);
  const between = { fromUnixMs: fromMs, untilUnixMs: untilMs };
  const meter = meters.find((one) => one === (by === 'meter' ? line.key : line.meter));
  const isFiltered = line.subjectId !== undefined || by === 'meter';
  const group = useQuery({
    queryKey: ['billing', 'groupPeriods', by, line.key, between],
    queryFn: () => periodsOfGroup(by, line.key, between),
    enabled: !isFiltered,
  });
  const fetchPage = async (pager: { currentPage: number; pageSize: number }): Promise<Page<Period>> => {
    if (!isFiltered) {
      const { rows, total } = group.data ?? (await periodsOfGroup(by, line.key, between));
      const from = (pager.currentPage - 1) * pager.pageSize;
      return { rows: rows.slice(from, from + pager.pageSize), total };
    }
    const { periods, pager: found } = await api.listUsagePeriods({
      pager,
      ...between,
      ...(line.subjectId === undefined ? {} : { subjectId: line.subjectId }),
      ...(meter === undefined ? {} : { meter }),
    });
    return { rows: periods, total: found.totalEntries };
  };
  return (
    <>
      <Group gap="sm" mt="sm" mb={4}>
        <Button variant="default" leftSection={<IconArrowLeft size={13} />} onClick={onBack}>
          {billing.allLines}
        </Button>
        <Title order={2}>{nameOf(line)}</Title>
        <Text size="sm" c="dimmed">
          {[money(line.amount), ...(line.freeMs > 0 ? [billing.freeFor(duration(line.freeMs))] : [])].join(' · ')}
        </Text>
        {line.subjectKind === 'instance' && line.subjectId !== undefined && (
          <ButtonLink variant="default" to="/instances/$instanceId" params={{ instanceId: line.subjectId }}>
            {billing.openInstance}
          </ButtonLink>
        )}
        {line.subjectKind === 'volume' && line.subjectId !== undefined && (
          <ButtonLink variant="default" to="/volumes/$volumeId" params={{ volumeId: line.subjectId }}>
            {billing.openVolume}
          </ButtonLink>
        )}
      </Group>
      <PagedTable
        label={billing.periods}
        queryKey={['billing', 'periods', by, line.key, between]}
        fetchPage={fetchPage}
        columns={columns}
        keyOf={({ periodId }) => periodId}
        card={(period) => <PeriodCard period={period} isNamed={line.subjectId === undefined} />}
        empty={<EmptyState {...billing.noPeriods} />}
      />
    </>
  );
}
