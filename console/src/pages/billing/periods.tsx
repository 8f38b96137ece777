/** A usage period: its time, why it was charged or free, and the events behind it. */
import { Badge, Code, Group, Stack, Text, Tooltip } from '@mantine/core';
import { useMemo } from 'react';
import { useFormat } from '../../app/format.ts';
import type { Column } from '../../parts/paged-table.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { Period } from './line-view.tsx';

const PAID = ['charged', 'paidAhead'];

function Time({ period: { fromUnixMs, untilUnixMs } }: { period: Period }) {
  const { billing } = useTexts();
  const { moment, dateTime } = useFormat();
  const end = untilUnixMs === null ? billing.open : moment(untilUnixMs);
  return (
    <Tooltip label={`${dateTime(fromUnixMs)} – ${untilUnixMs === null ? billing.open : dateTime(untilUnixMs)}`}>
      <Text span size="sm" tabIndex={0}>
        {moment(fromUnixMs)} – {end}
      </Text>
    </Tooltip>
  );
}

function State({ period: { state, freeMs } }: { period: Period }) {
  const { billing } = useTexts();
  const { duration } = useFormat();
  const isPaid = PAID.includes(state);
  return (
    <Group gap={6} wrap="nowrap">
      <Badge size="sm" tt="none" variant={isPaid ? 'light' : 'outline'} color={isPaid ? undefined : 'gray'}>
        {billing.stateName(state)}
      </Badge>
      {freeMs > 0 && (
        <Text span size="xs" c="dimmed">
          {billing.freeFor(duration(freeMs))}
        </Text>
      )}
    </Group>
  );
}

function Transitions({ period: { transitions } }: { period: Period }) {
  const { billing } = useTexts();
  const shown = [
    [billing.openedBy, transitions.opened],
    [billing.closedBy, transitions.closed],
  ] as const;
  return (
    <Group gap={6} wrap="nowrap">
      {shown.map(
        ([label, event]) =>
          event && (
            <Tooltip key={label} label={`${label}: ${billing.event(event.seq)}`}>
              <Code tabIndex={0} fz={11}>
                {event.kind ?? billing.event(event.seq)}
              </Code>
            </Tooltip>
          ),
      )}
    </Group>
  );
}

function Price({ period: { meter, price, quantity } }: { period: Period }) {
  const { billing } = useTexts();
  const { money } = useFormat();
  return <>{meter === 'compute' ? billing.perHour(money(price)) : billing.perGB(money(price), quantity)}</>;
}

export const usePeriodColumns = (isNamed: boolean): Column<Period, never>[] => {
  const { billing } = useTexts();
  const { money, duration } = useFormat();
  return useMemo(
    () => [
      ...(isNamed
        ? [{ key: 'name', title: billing.columns.what, width: 'minmax(110px, 1fr)', cell: (row: Period) => row.name }]
        : []),
      { key: 'time', title: billing.columns.time, width: 'minmax(200px, 1.4fr)', cell: (row) => <Time period={row} /> },
      {
        key: 'state',
        title: billing.columns.state,
        width: 'minmax(130px, 1fr)',
        cell: (row) => <State period={row} />,
      },
      {
        key: 'lasted',
        title: billing.columns.lasted,
        width: '110px',
        align: 'right',
        cell: ({ fromUnixMs, untilUnixMs }) => duration((untilUnixMs ?? Date.now()) - fromUnixMs),
      },
      {
        key: 'price',
        title: billing.columns.price,
        width: 'minmax(130px, 1fr)',
        align: 'right',
        cell: (row) => <Price period={row} />,
      },
      {
        key: 'amount',
        title: billing.columns.amount,
        width: '90px',
        align: 'right',
        cell: ({ amount }) => money(amount),
      },
      {
        key: 'events',
        title: billing.columns.events,
        width: 'minmax(260px, 1.8fr)',
        cell: (row) => <Transitions period={row} />,
      },
    ],
    [billing, money, duration, isNamed],
  );
};

export function PeriodCard({ period, isNamed }: { period: Period; isNamed: boolean }) {
  const { money } = useFormat();
  return (
    <Stack gap={6}>
      <Group justify="space-between" wrap="nowrap">
        {isNamed ? (
          <Text span size="sm" truncate>
            {period.name}
          </Text>
        ) : (
          <State period={period} />
        )}
        <Text span size="sm" fw={600}>
          {money(period.amount)}
        </Text>
      </Group>
      <Group justify="space-between">
        <Time period={period} />
        <Text span size="xs" c="dimmed">
          <Price period={period} />
        </Text>
      </Group>
      {isNamed && <State period={period} />}
      <Transitions period={period} />
    </Stack>
  );
}
