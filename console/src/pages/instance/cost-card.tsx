/** What the instance has cost so far, its lines, and the time that was free. */
import { Button, Group, Paper, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useFormat } from '../../app/format.ts';
import { useNow } from '../../app/now.ts';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import { hourlyOf, lengthOf, sharesOf } from './cost.ts';
import classes from './instance.module.css';
import { costQuery, type Cost, type InstanceView } from './queries.ts';

const FIRST_LINES = 5;

export function CostCard({ view: { instance } }: { view: InstanceView }) {
  const { instance: texts, common } = useTexts();
  const { money } = useFormat();
  const cost = useQuery(costQuery(idOf(instance)));
  const hourly = hourlyOf(cost.data?.periods ?? []);
  return (
    <Paper withBorder p="md">
      <Title order={2} mb="xs">
        {texts.cost.title}
      </Title>
      {cost.isError && cost.data === undefined && <Trouble error={cost.error} onRetry={() => void cost.refetch()} />}
      {cost.data && (
        <Stack gap="xs">
          <Group justify="space-between" align="baseline">
            <Text fw={600} fz={24}>
              {money(cost.data.total)}
            </Text>
            {hourly > 0 && (
              <Text size="sm" c="dimmed">
                {texts.cost.rate(money(hourly), common.perHour)}
              </Text>
            )}
          </Group>
          <Shares cost={cost.data} />
          <Lines cost={cost.data} />
        </Stack>
      )}
    </Paper>
  );
}

function Shares({ cost }: { cost: Cost }) {
  const { cost: texts } = useTexts().instance;
  const { duration } = useFormat();
  const shares = sharesOf(cost.periods, useNow(10_000));
  const all = shares.chargedMs + shares.paidAheadMs + shares.freeMs;
  if (all === 0) return null;
  const parts = [
    ...(shares.chargedMs > 0 ? [texts.charged(duration(shares.chargedMs))] : []),
    ...(shares.paidAheadMs > 0 ? [texts.paidAhead(duration(shares.paidAheadMs))] : []),
    ...(shares.freeMs > 0 ? [texts.free(duration(Math.max(1_000, shares.freeMs)))] : []),
  ];
  const width = (ms: number): string => `${(ms / all) * 100}%`;
  return (
    <div>
      <div className={classes.shares} role="img" aria-label={parts.join(', ')}>
        <div className={classes.charged} style={{ width: width(shares.chargedMs) }} />
        <div className={classes.ahead} style={{ width: width(shares.paidAheadMs) }} />
      </div>
      <Text size="xs" c="dimmed" mt={4}>
        {parts.join(' · ')}
      </Text>
    </div>
  );
}

function Lines({ cost: { periods, payments } }: { cost: Cost }) {
  const { cost: texts } = useTexts().instance;
  const { money, moment, duration } = useFormat();
  const nowMs = useNow(10_000);
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? periods : periods.slice(0, FIRST_LINES);
  if (periods.length === 0) return null;
  return (
    <>
      <Table fz="sm" verticalSpacing={3} horizontalSpacing={4} withRowBorders={false}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{texts.from}</Table.Th>
            <Table.Th>{texts.what}</Table.Th>
            <Table.Th ta="right">{texts.time}</Table.Th>
            <Table.Th ta="right">{texts.amount}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {payments.map(({ entryId, atUnixMs, kind, amount }) => (
            <Table.Tr key={entryId}>
              <Table.Td className={classes.when}>{moment(atUnixMs)}</Table.Td>
              <Table.Td>{kind === 'refund' ? texts.refund : texts.prepayment}</Table.Td>
              <Table.Td />
              <Table.Td ta="right">{money(-amount)}</Table.Td>
            </Table.Tr>
          ))}
          {shown.map((period) => (
            <Table.Tr key={period.periodId}>
              <Table.Td className={classes.when}>{moment(period.fromUnixMs)}</Table.Td>
              <Table.Td>{texts.lineOf(period.meter, period.state)}</Table.Td>
              <Table.Td ta="right" className={classes.when}>
                {duration(Math.max(1_000, lengthOf(period, nowMs)))}
              </Table.Td>
              <Table.Td ta="right">{money(period.amount)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {periods.length > FIRST_LINES && !isWhole && (
        <Button variant="subtle" onClick={() => setWhole(true)}>
          {texts.allLines(periods.length)}
        </Button>
      )}
    </>
  );
}
