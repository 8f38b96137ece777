/** Lines of a quote: what the launch costs, when that changes, and how long the money lasts. */
import { Anchor, Divider, Group, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import type { ChargeMode } from '../../../../src/contract/statuses.ts';
import { useFormat } from '../../app/format.ts';
import { useTexts } from '../../texts/provider.tsx';
import type { Choices } from './draft.ts';

export type Quote = AnswerOf<'quote'>['quote'];

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** Beyond, hours say nothing. */
const MOST_HOURS = 30_000;

export const priceNowOf = ({ total, pricePerHour }: Quote): number => (total > 0 ? total : pricePerHour);

interface LinesProps {
  quote: Quote;
  mode: ChargeMode;
  change: (over: Choices) => void;
}

export function Lines({ quote, mode, change }: LinesProps) {
  const { launch, common } = useTexts();
  const { money, duration, moment } = useFormat();
  const { startsAtUnixMs, nextPriceChange, cheapestStart, balanceLastsHours, stoppedPricePerHour } = quote;
  const isLater = (atMs: number): boolean => atMs > Date.now() + MINUTE_MS;
  const lines: [ReactNode, string][] = [
    [launch.lines.perHour, money(quote.pricePerHour)],
    [launch.lines.perDay, money(quote.pricePerDay)],
  ];
  if (stoppedPricePerHour > 0) lines.push([launch.lines.stopped, money(stoppedPricePerHour)]);
  if (isLater(startsAtUnixMs)) lines.push([launch.lines.startsAt, moment(startsAtUnixMs)]);
  for (const { rule, atUnixMs, cost } of quote.stops)
    lines.push([`${launch.stops(rule)} ${moment(atUnixMs)}`, money(cost)]);
  if (nextPriceChange)
    lines.push([launch.lines.nextPrice(moment(nextPriceChange.atUnixMs)), money(nextPriceChange.price)]);
  if (cheapestStart && cheapestStart.pricePerHour < quote.pricePerHour) {
    const { chargeMode, atUnixMs, pricePerHour } = cheapestStart;
    const words = isLater(atUnixMs) ? launch.lines.cheapest(moment(atUnixMs)) : launch.lines.cheapestNow;
    const offered =
      chargeMode === mode ? (
        words
      ) : (
        <Anchor component="button" type="button" size="sm" ta="left" onClick={() => change({ mode: chargeMode })}>
          {words}: {launch.modes[chargeMode].name}
        </Anchor>
      );
    lines.push([offered, money(pricePerHour)]);
  }
  const lasts =
    balanceLastsHours === null || balanceLastsHours > MOST_HOURS
      ? common.forever
      : duration(balanceLastsHours * HOUR_MS);
  lines.push([launch.lines.lasts, lasts]);
  return (
    <>
      <Group justify="space-between" align="baseline">
        <Text fw={600} fz={24}>
          {money(priceNowOf(quote))}
        </Text>
        <Text size="sm" c="dimmed">
          {quote.total > 0 ? launch.lines.now : common.perHour}
        </Text>
      </Group>
      <Divider my={6} />
      {lines.map(([label, value], index) => (
        <Group key={index} justify="space-between" wrap="nowrap" gap="xs" align="flex-start">
          <Text size="sm" c="dimmed" component="div">
            {label}
          </Text>
          <Text size="sm">{value}</Text>
        </Group>
      ))}
    </>
  );
}
