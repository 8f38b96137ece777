/** What the launch costs, always in view; it changes with each choice. */
import { Button, Group, Menu, Paper, Stack, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconChevronDown, IconRocket } from '@tabler/icons-react';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { ApiError } from '../../../../src/contract/client.ts';
import { WAIT_HEADER } from '../../../../src/contract/compute/instance.ts';
import { api } from '../../app/api.ts';
import { base } from '../../app/base.ts';
import { useFormat } from '../../app/format.ts';
import { CopyItem } from '../../parts/copy-item.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { Choices, Draft, LaunchBody } from './draft.ts';
import classes from './launch.module.css';
import { Lines, priceNowOf, type Quote } from './quote-lines.tsx';

const TYPING_MS = 150;

/** A quote holds for five minutes: a new one comes before. */
const FRESH_MS = 4 * 60_000;

/** `waits`: for a place, as the button does while none is free. */
const curlOf = (body: LaunchBody, waits: boolean): string =>
  [
    `curl ${window.location.origin}${base}/api/instance/create`,
    `  -H 'Content-Type: application/json' -H "X-API-Key: $BERTH_API_KEY"`,
    ...(waits ? [`  -H '${WAIT_HEADER}: true'`] : []),
    `  -d '${JSON.stringify(body).replaceAll("'", String.raw`'\''`)}'`,
  ].join(' \\\n');

interface QuotePanelProps {
  body: LaunchBody;
  draft: Draft;
  change: (over: Choices) => void;
}

export function QuotePanel({ body, draft, change }: QuotePanelProps) {
  const { launch, common } = useTexts();
  const { money } = useFormat();
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
  const isFull = !draft.offer.isInStock;
  const waits = isFull || quote.data?.stockStatus === 'OutOfStock';
  const create = useMutation({
    mutationFn: () => {
      const isQuoted = JSON.stringify(asked) === JSON.stringify(body) && !quote.isPlaceholderData;
      return api.launch(body, {
        ...(isQuoted && quote.data ? { quoteId: quote.data.quoteId } : {}),
        ...(waits ? { waitForCapacity: true } : {}),
      });
    },
    onSuccess: ({ instanceId }) =>
      navigate({ to: '/instances/$instanceId', params: { instanceId }, search: { open: true } }),
  });
  const unitOf = ({ total }: Quote): string => (total > 0 ? launch.lines.now : common.perHour);
  // A quote refuses what the launch would refuse.
  const isRefused = quote.error instanceof ApiError && quote.error.status >= 400 && quote.error.status < 500;
  const button = (
    <Button
      size="sm"
      leftSection={<IconRocket size={16} />}
      loading={create.isPending}
      disabled={draft.name.trim() === '' || isRefused}
      onClick={() => create.mutate()}
    >
      {isFull ? launch.waitForCapacity : launch.launch}
    </Button>
  );
  return (
    <Paper withBorder p="md" className={classes.panel}>
      <Stack gap="sm">
        <div aria-live="polite">
          {quote.data && !quote.isError ? (
            <Lines quote={quote.data} mode={draft.mode} change={change} />
          ) : (
            <Text size="sm" c="dimmed">
              {launch.noQuote}
            </Text>
          )}
        </div>
        {quote.isError && <Trouble error={quote.error} />}
        {create.isError && <Trouble error={create.error} />}
        <Stack visibleFrom="md">{button}</Stack>
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
            <CopyItem label="curl" value={() => curlOf(body, waits)} />
            <CopyItem label="JSON" value={() => JSON.stringify(body, null, 2)} />
          </Menu.Dropdown>
        </Menu>
      </Stack>
      {/* On a phone the price and the button stay in view; its parts are below the choices. */}
      <Group hiddenFrom="md" className={classes.phoneBar} justify="space-between" wrap="nowrap">
        <div>
          <Text size="sm" fw={600}>
            {quote.data && !quote.isError ? `${money(priceNowOf(quote.data))} ${unitOf(quote.data)}` : ''}
          </Text>
          <Text size="xs" c="dimmed">
            {draft.offer.typeName}
          </Text>
        </div>
        {button}
      </Group>
    </Paper>
  );
}
