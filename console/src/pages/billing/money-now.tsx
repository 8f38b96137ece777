/** Money by kind, and the steps that follow when it ends. */
import { Grid, Group, Paper, Text, Title } from '@mantine/core';
import { IconArchive, IconBan, IconBell, IconPlayerStop, IconTrash, type Icon } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { moneySteps, type MoneyStep } from '../../../../src/contract/statuses.ts';
import { useFormat } from '../../app/format.ts';
import { Facts } from '../../parts/facts.tsx';
import { useTexts } from '../../texts/provider.tsx';
import classes from './billing.module.css';
import { balanceQuery } from './queries.ts';

export type ForecastAnswer = AnswerOf<'forecast'>;

const icons: Readonly<Record<MoneyStep, Icon>> = {
  none: IconBell,
  forecast: IconBell,
  warn: IconBell,
  noStarts: IconBan,
  stop: IconPlayerStop,
  archive: IconArchive,
  delete: IconTrash,
};
const stepOf = (name: string): MoneyStep => moneySteps.find((step) => step === name) ?? 'none';
const YEARS_MS = 3 * 365 * 86_400_000;

export function MoneyNow({ forecast }: { forecast: ForecastAnswer }) {
  const { billing } = useTexts();
  const { money } = useFormat();
  const balance = useQuery(balanceQuery).data;
  const overdraft = balance === undefined ? 0 : balance.availableBalance - balance.balance;
  const facts: [string, string][] =
    balance === undefined
      ? []
      : [
          [billing.cash, money(balance.balance)],
          [billing.vouchers, money(balance.availableVoucherAmount)],
          [billing.credits, money(balance.availableCreditAmount)],
          ...(overdraft > 0 ? [[billing.overdraft, money(overdraft)] satisfies [string, string]] : []),
        ];
  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, sm: 5, lg: 4 }}>
        <Paper withBorder p="md" h="100%">
          <Title order={2} mb={4}>
            {billing.balance}
          </Title>
          <Facts
            facts={[
              ...facts,
              [billing.monthToDate, money(forecast.monthToDate)],
              [billing.monthForecast, money(forecast.monthForecast)],
            ]}
          />
        </Paper>
      </Grid.Col>
      <Grid.Col span={{ base: 12, sm: 7, lg: 8 }}>
        <Paper withBorder p="md" h="100%">
          <Title order={2} mb={4}>
            {billing.next}
          </Title>
          <NextSteps forecast={forecast} />
        </Paper>
      </Grid.Col>
    </Grid>
  );
}

function NextSteps({ forecast: { step, steps, lastsUntilUnixMs } }: { forecast: ForecastAnswer }) {
  const { billing } = useTexts();
  const { moment, dateTime } = useFormat();
  const isFar = lastsUntilUnixMs !== null && lastsUntilUnixMs - Date.now() > YEARS_MS;
  return (
    <>
      {step !== 'none' && (
        <Text size="sm" fw={600} c="red" mb={4}>
          {billing.nowStep[stepOf(step)]}
        </Text>
      )}
      {lastsUntilUnixMs === null && steps.length === 0 && step === 'none' && (
        <Text size="sm" c="dimmed">
          {billing.noEnd}
        </Text>
      )}
      {isFar && (
        <Text size="sm" c="dimmed">
          {billing.farEnd}
        </Text>
      )}
      {!isFar && (
        <ol className={classes.steps}>
          {steps.map(({ step: name, atUnixMs }) => {
            const Icon = icons[stepOf(name)];
            return (
              <Group key={name} component="li" gap="xs" wrap="nowrap" py={2} align="flex-start">
                <Icon size={15} stroke={1.6} aria-hidden className={classes.swatch} />
                <Text size="sm" flex={1}>
                  {billing.steps[stepOf(name)]}
                </Text>
                <Text size="sm" c="dimmed" ta="right">
                  <time dateTime={new Date(atUnixMs).toISOString()} title={dateTime(atUnixMs)}>
                    {moment(atUnixMs)}
                  </time>
                </Text>
              </Group>
            );
          })}
        </ol>
      )}
      <Text size="xs" c="dimmed" mt={6}>
        {billing.topUp}
      </Text>
    </>
  );
}
