/** Events that the receiver of a webhook refused and that are set aside. */
import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { ShortTable, type ShortColumn } from '../../parts/short-table.tsx';
import { StateWord } from '../../parts/state-word.tsx';
import { useOneAct } from '../../parts/use-one-act.ts';
import { useTexts } from '../../texts/provider.tsx';

type Answer = AnswerOf<'listWebhookDeliveries'>;
type Event = Answer['setAside'][number];

export function SetAside({ id, answer: { setAside, setAsideCount } }: { id: string; answer: Answer }) {
  const { webhooks } = useTexts().access;
  const resend = useOneAct({
    act: (deliveryId?: string) => api.resendWebhook({ id, deliveryId }),
    said: ({ count }) => webhooks.resent(count),
    stale: ['webhooks'],
  });
  const columns: ShortColumn<Event>[] = [
    { key: 'kind', title: webhooks.deliveryColumns.kind, cell: ({ kind }) => kind },
    { key: 'subject', title: webhooks.setAsideColumns.subject, cell: ({ subjectId }) => subjectId },
    {
      key: 'at',
      title: webhooks.setAsideColumns.at,
      cell: ({ setAsideAtUnixMs }) => <RelativeTime atMs={setAsideAtUnixMs} />,
    },
    {
      key: 'result',
      title: webhooks.deliveryColumns.result,
      cell: ({ resending, status, answer }) =>
        resending ? (
          <StateWord kind="busy" word={webhooks.resending} />
        ) : (
          <StateWord kind="bad" word={webhooks.undelivered(status)} why={answer} />
        ),
    },
    {
      key: 'act',
      title: '',
      align: 'right',
      cell: ({ deliveryId, kind, resending }) => (
        <Button
          variant="default"
          aria-label={webhooks.redeliverOf(kind)}
          disabled={resending}
          loading={resend.isPending && resend.variables === deliveryId}
          onClick={() => resend.mutate(deliveryId)}
        >
          {webhooks.redeliver}
        </Button>
      ),
    },
  ];
  return (
    <Alert color="orange" title={webhooks.setAside(setAsideCount)} mb="md">
      <Stack gap="xs">
        <Group justify="space-between">
          <Text size="sm">{webhooks.setAsideHint}</Text>
          <Button
            variant="default"
            loading={resend.isPending && resend.variables === undefined}
            onClick={() => resend.mutate(undefined)}
          >
            {webhooks.resendAll}
          </Button>
        </Group>
        <ShortTable
          label={webhooks.setAsideList}
          rows={setAside}
          columns={columns}
          keyOf={({ deliveryId }) => deliveryId}
        />
      </Stack>
    </Alert>
  );
}
