/** What the launch costs, always in view; it changes with each choice. */
import { Button, Divider, Group, Menu, Paper, Stack, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconChevronDown, IconRocket } from '@tabler/icons-react';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { CopyItem } from '../../parts/copy-item.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { Draft, LaunchBody } from './draft.ts';
import classes from './launch.module.css';

const TYPING_MS = 150;
const HOUR_MS = 3_600_000;

/** A quote holds for five minutes: a new one comes before. */
const FRESH_MS = 4 * 60_000;

export const curlOf = (body: LaunchBody): string =>
  [
    `curl ${window.location.origin}/api/instance/create`,
    `  -H 'Content-Type: application/json' -H "X-API-Key: $BERTH_API_KEY"`,
    `  -d '${JSON.stringify(body).replaceAll("'", String.raw`'\''`)}'`,
  ].join(' \\\n');

export function QuotePanel({ body, draft }: { body: LaunchBody; draft: Draft }) {
  const { launch } = useTexts();
  const navigate = useNavigate();
  const [asked] = useDebouncedValue(body, TYPING_MS);
  const quote = useQuery({
    queryKey: ['quote', asked],
    queryFn: async () => (await api.quote(asked)).quote,
    placeholderData: keepPreviousData,
    staleTime: FRESH_MS,
    refetchInterval: FRESH_MS,
    retry: false,
  });
  const create = useMutation({
    mutationFn: () => {
      const isQuoted = JSON.stringify(asked) === JSON.stringify(body) && !quote.isPlaceholderData;
      const waits = quote.data?.stockStatus === 'OutOfStock' || !draft.offer.isInStock;
      return api.launch(body, {
        ...(isQuoted && quote.data ? { quoteId: quote.data.quoteId } : {}),
        ...(waits ? { waitForCapacity: true } : {}),
      });
    },
    onSuccess: ({ instanceId }) =>
      navigate({ to: '/instances/$instanceId', params: { instanceId }, search: { open: true } }),
  });
  const isFull = !draft.offer.isInStock;
  return (
    <Paper withBorder p="md" className={classes.panel}>
      <Stack gap="sm">
        <div aria-live="polite">
          {quote.data && !quote.isError ? (
            <Lines quote={quote.data} />
          ) : (
            <Text size="sm" c="dimmed">
              {launch.noQuote}
            </Text>
          )}
        </div>
        {quote.isError && <Trouble error={quote.error} />}
        {create.isError && <Trouble error={create.error} />}
        <Button
          size="sm"
          leftSection={<IconRocket size={16} />}
          loading={create.isPending}
          disabled={draft.name.trim() === ''}
          onClick={() => create.mutate()}
        >
          {isFull ? launch.waitForCapacity : launch.launch}
        </Button>
        <Text size="xs" c="dimmed">
          {launch.free}
        </Text>
        <Menu position="bottom-end" closeOnItemClick={false}>
          <Menu.Target>
            <Button variant="subtle" color="gray" rightSection={<IconChevronDown size={13} />}>
              {launch.copyAs}
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <CopyItem label="curl" value={() => curlOf(body)} />
            <CopyItem label="JSON" value={() => JSON.stringify(body, null, 2)} />
          </Menu.Dropdown>
        </Menu>
      </Stack>
    </Paper>
  );
}

type Quote = Awaited<ReturnType<typeof api.quote>>['quote'];

function Lines({ quote }: { quote: Quote }) {
  const { launch, common } = useTexts();
  const { money, duration, at } = useFormat();
  const lines: [string, string][] = [
    [launch.lines.perHour, money(quote.pricePerHour)],
    [launch.lines.perDay, money(quote.pricePerDay)],
    ...(quote.stoppedPricePerHour > 0
      ? [[launch.lines.stopped, money(quote.stoppedPricePerHour)] as [string, string]]
      : []),
    ...(quote.startsAtUnixMs > Date.now() + 60_000
      ? [[launch.lines.startsAt, at(quote.startsAtUnixMs)] as [string, string]]
      : []),
    ...quote.stops.map(({ rule, atUnixMs, cost }): [string, string] => [
      `${launch.stops(rule)} ${at(atUnixMs)}`,
      money(cost),
    ]),
    ...(quote.nextPriceChange
      ? [
          [launch.lines.nextPrice(at(quote.nextPriceChange.atUnixMs)), money(quote.nextPriceChange.price)] as [
            string,
            string,
          ],
        ]
      : []),
    ...(quote.cheapestStart && quote.cheapestStart.pricePerHour < quote.pricePerHour
      ? [
          [launch.lines.cheapest(at(quote.cheapestStart.atUnixMs)), money(quote.cheapestStart.pricePerHour)] as [
            string,
            string,
          ],
        ]
      : []),
    [
      launch.lines.lasts,
      quote.balanceLastsHours === null || quote.balanceLastsHours > 30_000
        ? common.forever
        : duration(quote.balanceLastsHours * HOUR_MS),
    ],
  ];
  return (
    <>
      <Group justify="space-between" align="baseline">
        <Text fw={600} fz={24}>
          {money(quote.total > 0 ? quote.total : quote.pricePerHour)}
        </Text>
        <Text size="sm" c="dimmed">
          {quote.total > 0 ? launch.lines.now : common.perHour}
        </Text>
      </Group>
      <Divider my={6} />
      {lines.map(([label, value]) => (
        <Group key={label} justify="space-between" wrap="nowrap" gap="xs">
          <Text size="sm" c="dimmed">
            {label}
          </Text>
          <Text size="sm">{value}</Text>
        </Group>
      ))}
    </>
  );
}
