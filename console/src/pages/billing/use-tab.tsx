/** A month: its chart, its lines, and the periods of an open line. */
import { ActionIcon, Alert, Group, NativeSelect, Text } from '@mantine/core';
import { IconChevronLeft, IconChevronRight } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ButtonLink } from '../../parts/links.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useSpoken } from '../../texts/provider.tsx';
import { GpuUse } from './gpu-use.tsx';
import { LineView } from './line-view.tsx';
import { LinesTable } from './lines-table.tsx';
import type { ForecastAnswer } from './money-now.tsx';
import { useLineName } from './line-name.ts';
import { daysOf, linesOf, movedMonth } from './month.ts';
import { lineColors, MonthChart } from './month-chart.tsx';
import { budgetsQuery, FRESH_MS, labelKeysQuery, usageQuery } from './queries.ts';
import type { BillingSearch } from './search.ts';
import { StatementMenu } from './statement-menu.tsx';

interface UseTabProps {
  search: BillingSearch;
  change: (over: BillingSearch, replace?: boolean) => void;
  forecast: ForecastAnswer;
}

export function UseTab({ search, change, forecast }: UseTabProps) {
  const { texts, language } = useSpoken();
  const { billing } = texts;
  const { timeZone } = forecast;
  const month = search.month ?? forecast.month;
  const by = search.by ?? 'resource';
  const isCurrent = month === forecast.month;
  const usage = useQuery({
    ...usageQuery({ month, timeZone, groupBy: by }),
    refetchInterval: isCurrent ? FRESH_MS : false,
  });
  const budgets = useQuery(budgetsQuery).data ?? [];
  const labelKeys = useQuery(labelKeysQuery).data ?? [];
  const nameOf = useLineName(by);
  const move = (to: number): void => {
    const next = movedMonth(month, to);
    change({ month: next === forecast.month ? undefined : next, day: undefined, line: undefined });
  };
  const monthName = new Intl.DateTimeFormat(language, { month: 'long', year: 'numeric', timeZone: 'UTC' }).format(
    Date.parse(`${month}-01T00:00:00Z`),
  );
  const keys = [...new Set([...labelKeys, ...(by.startsWith('label:') ? [by.slice('label:'.length)] : [])])];
  const head = (
    <Group gap="xs" mb="xs">
      <Group gap={2} wrap="nowrap">
        <ActionIcon aria-label={billing.monthBefore} onClick={() => move(-1)}>
          <IconChevronLeft size={16} />
        </ActionIcon>
        <Text size="sm" fw={600} miw={120} ta="center" aria-live="polite">
          {monthName}
        </Text>
        <ActionIcon aria-label={billing.monthAfter} disabled={month >= forecast.month} onClick={() => move(1)}>
          <IconChevronRight size={16} />
        </ActionIcon>
      </Group>
      <NativeSelect
        size="xs"
        aria-label={billing.by}
        value={by}
        onChange={({ currentTarget }) => change({ by: currentTarget.value, line: undefined }, true)}
        data={[
          { value: 'resource', label: billing.byResource },
          { value: 'type', label: billing.byType },
          { value: 'meter', label: billing.byMeter },
          ...keys.map((key) => ({ value: `label:${key}`, label: billing.byLabel(key) })),
        ]}
      />
      <StatementMenu month={month} timeZone={timeZone} />
      <Text size="xs" c="dimmed">
        {billing.inZone(timeZone)}
      </Text>
    </Group>
  );
  if (usage.isError) return <Trouble error={usage.error} onRetry={() => void usage.refetch()} />;
  if (usage.data === undefined)
    return (
      <>
        {head}
        <Loading h={420} label={billing.tabs.use} />
      </>
    );
  const { rows, isCut } = usage.data;
  const days = daysOf(rows, month, timeZone);
  const day = days.find(({ number }) => number === search.day);
  const all = linesOf(rows);
  const lines = day === undefined ? all : linesOf(rows.filter(({ fromUnixMs }) => fromUnixMs === day.fromMs));
  if (rows.length === 0)
    return (
      <>
        {head}
        <EmptyState {...billing.emptyMonth}>
          {isCurrent && (
            <ButtonLink to="/launch" size="sm">
              {texts.instances.launch}
            </ButtonLink>
          )}
        </EmptyState>
      </>
    );
  const shown = all.slice(0, lineColors.length).filter(({ amount }) => amount > 0);
  const byKey = new Map(all.map((line) => [line.key, line]));
  const open = search.line === undefined ? undefined : byKey.get(search.line);
  const span = day ?? { fromMs: days[0]?.fromMs ?? 0, untilMs: days.at(-1)?.untilMs ?? 0 };
  return (
    <>
      {head}
      {isCut && (
        <Alert color="yellow" variant="light" mb="xs" py={6}>
          {billing.cut}
        </Alert>
      )}
      <MonthChart
        days={days}
        timeZone={timeZone}
        shown={shown.map(({ key }) => key)}
        nameOf={(key) => nameOf(byKey.get(key) ?? { name: key })}
        forecast={isCurrent ? { nowMs: Date.now(), toDate: forecast.monthToDate, atEnd: forecast.monthForecast } : null}
        marks={budgets
          .filter(({ scope }) => scope === null)
          .flatMap(({ name, soft, hard }) => [
            ...(soft === null ? [] : [{ name, amount: soft, isHard: false }]),
            ...(hard === null ? [] : [{ name, amount: hard, isHard: true }]),
          ])}
        chosen={search.day}
        onDay={(number) => change({ day: number, line: undefined })}
        onLine={(number, line) => change({ day: number, line })}
      />
      <GpuUse month={month} timeZone={timeZone} day={day} isCurrent={isCurrent} />
      {open === undefined ? (
        <LinesTable
          lines={lines}
          by={by}
          day={day}
          timeZone={timeZone}
          onOpen={(line) => change({ line })}
          onAllDays={() => change({ day: undefined })}
        />
      ) : (
        <LineView
          line={(day === undefined ? open : lines.find(({ key }) => key === open.key)) ?? { ...open, amount: 0 }}
          by={by}
          span={span}
          onBack={() => change({ line: undefined })}
        />
      )}
    </>
  );
}
