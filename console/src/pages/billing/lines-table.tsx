/** Lines of a month or of one of its days, the most expensive first. */
import { Anchor, Button, Group, Progress, Text, Title } from '@mantine/core';
import { IconX } from '@tabler/icons-react';
import { useFormat } from '../../app/format.ts';
import { ShortTable } from '../../parts/short-table.tsx';
import { useSpoken } from '../../texts/provider.tsx';
import type { Day, Line } from './month.ts';
import { useLineName } from './line-name.ts';

interface LinesTableProps {
  lines: readonly Line[];
  by: string;
  day: Day | undefined;
  timeZone: string;
  onOpen: (key: string) => void;
  onAllDays: () => void;
}

export function LinesTable({ lines, by, day, timeZone, onOpen, onAllDays }: LinesTableProps) {
  const { texts, language } = useSpoken();
  const { billing } = texts;
  const { money, duration, percent } = useFormat();
  const nameOf = useLineName(by);
  const sum = lines.reduce((total, { amount }) => total + amount, 0);
  const title =
    day === undefined
      ? billing.costMost
      : billing.onDay(
          new Intl.DateTimeFormat(language, { weekday: 'long', day: 'numeric', month: 'long', timeZone }).format(
            day.fromMs,
          ),
        );
  return (
    <>
      <Group gap="sm" mt="sm" mb={4}>
        <Title order={2}>{title}</Title>
        <Text size="sm" c="dimmed">
          {money(sum)}
        </Text>
        {day !== undefined && (
          <Button variant="default" leftSection={<IconX size={13} />} onClick={onAllDays}>
            {billing.allDays}
          </Button>
        )}
      </Group>
      {lines.length === 0 ? (
        <Text size="sm" c="dimmed">
          {billing.noLines}
        </Text>
      ) : (
        <ShortTable
          label={title}
          rows={lines}
          keyOf={({ key }) => key}
          columns={[
            {
              key: 'name',
              title: billing.columns.what,
              cell: (line) => (
                <Anchor component="button" type="button" size="sm" ta="left" onClick={() => onOpen(line.key)}>
                  {nameOf(line)}
                </Anchor>
              ),
            },
            {
              key: 'share',
              title: billing.columns.share,
              cell: ({ amount }) => (
                <Group gap={6} wrap="nowrap" w={150}>
                  <Progress
                    value={sum === 0 ? 0 : Math.round((amount / sum) * 100)}
                    flex={1}
                    size="sm"
                    aria-label={billing.columns.share}
                  />
                  <Text span size="xs" c="dimmed" w={38} ta="right">
                    {percent(sum === 0 ? 0 : amount / sum)}
                  </Text>
                </Group>
              ),
            },
            {
              key: 'charged',
              title: billing.columns.charged,
              align: 'right',
              cell: ({ chargedMs }) => (chargedMs > 0 ? duration(chargedMs) : '–'),
            },
            {
              key: 'free',
              title: billing.columns.free,
              align: 'right',
              cell: ({ freeMs }) => (freeMs > 0 ? duration(freeMs) : '–'),
            },
            { key: 'amount', title: billing.columns.amount, align: 'right', cell: ({ amount }) => money(amount) },
          ]}
        />
      )}
    </>
  );
}
