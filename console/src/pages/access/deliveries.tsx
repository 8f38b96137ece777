/** The last deliveries of a webhook, and its events that are set aside; each can be sent again. */
import { Button, CloseButton, Group, Paper, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { ShortTable, type ShortColumn } from '../../parts/short-table.tsx';
import { StateWord } from '../../parts/state-word.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useOneAct } from '../../parts/use-one-act.ts';
import { useTexts } from '../../texts/provider.tsx';
import { deliveriesQuery } from './queries.ts';
import { SetAside } from './set-aside.tsx';
import type { Webhook } from './webhooks-tab.tsx';

type Delivery = AnswerOf<'listWebhookDeliveries'>['deliveries'][number];

export function Deliveries({ webhook: { id, url }, onClose }: { webhook: Webhook; onClose: () => void }) {
  const { access, common } = useTexts();
  const { webhooks } = access;
  const query = useQuery(deliveriesQuery(id));
  const send = useOneAct({
    act: (deliveryId: string) => api.redeliverWebhook({ id, deliveryId }),
    said: ({ delivery }) =>
      delivery.delivered ? webhooks.tested(delivery.status, delivery.tookMs) : webhooks.testFailed(delivery.answer),
    stale: ['webhooks'],
  });
  const columns: ShortColumn<Delivery>[] = [
    { key: 'kind', title: webhooks.deliveryColumns.kind, cell: ({ kind }) => kind },
    {
      key: 'at',
      title: webhooks.deliveryColumns.at,
      cell: ({ lastAttemptAtUnixMs }) => <RelativeTime atMs={lastAttemptAtUnixMs} />,
    },
    {
      key: 'result',
      title: webhooks.deliveryColumns.result,
      cell: ({ delivered, status, answer }) => (
        <StateWord
          kind={delivered ? 'good' : 'bad'}
          word={delivered ? webhooks.delivered(status) : webhooks.undelivered(status)}
          why={answer}
        />
      ),
    },
    { key: 'attempts', title: webhooks.deliveryColumns.attempts, cell: ({ attempts }) => attempts },
    { key: 'took', title: webhooks.deliveryColumns.took, cell: ({ tookMs }) => webhooks.ms(tookMs) },
    {
      key: 'act',
      title: '',
      align: 'right',
      cell: ({ deliveryId, kind }) => (
        <Button
          variant="default"
          aria-label={webhooks.redeliverOf(kind)}
          loading={send.isPending && send.variables === deliveryId}
          onClick={() => send.mutate(deliveryId)}
        >
          {webhooks.redeliver}
        </Button>
      ),
    },
  ];
  return (
    <Paper withBorder p="md" component="section">
      <Group justify="space-between" wrap="nowrap" mb="xs">
        <Title order={2} style={{ overflowWrap: 'anywhere' }}>
          {webhooks.deliveriesOf(url)}
        </Title>
        <CloseButton aria-label={common.close} onClick={onClose} />
      </Group>
      {query.isError && <Trouble error={query.error} onRetry={() => void query.refetch()} />}
      {query.data !== undefined && query.data.setAsideCount > 0 && <SetAside id={id} answer={query.data} />}
      {query.data?.deliveries.length === 0 && (
        <Text size="sm" c="dimmed">
          {webhooks.noDeliveries}
        </Text>
      )}
      {query.data !== undefined && query.data.deliveries.length > 0 && (
        <ShortTable
          label={webhooks.deliveries}
          rows={query.data.deliveries}
          columns={columns}
          keyOf={({ deliveryId, accountId }) => `${accountId}.${deliveryId}`}
        />
      )}
    </Paper>
  );
}
