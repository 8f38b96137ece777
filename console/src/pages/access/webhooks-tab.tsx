/** Webhooks: where the events of the account go, and whether they arrive. */
import { ActionIcon, Badge, Button, Group, Menu, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconDotsVertical } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { useNow } from '../../app/now.ts';
import { ConfirmModal } from '../../parts/confirm-modal.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import type { ShortColumn } from '../../parts/short-table.tsx';
import { StateWord } from '../../parts/state-word.tsx';
import { TabList } from '../../parts/tab-list.tsx';
import { useOneAct } from '../../parts/use-one-act.ts';
import { useTexts } from '../../texts/provider.tsx';
import type { TabProps } from './access-page.tsx';
import { Deliveries } from './deliveries.tsx';
import { webhooksQuery } from './queries.ts';
import { readAccessSearch } from './search.ts';
import { WebhookModal } from './webhook-modal.tsx';

export type Webhook = AnswerOf<'listWebhooks'>['webhooks'][number];

const route = getRouteApi('/access');

export function WebhooksTab({ isCreating, onCreating }: TabProps) {
  const { webhooks } = useTexts().access;
  const { webhook: openedId } = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const reload = (): void => void queries.invalidateQueries({ queryKey: ['webhooks'] });
  const [secret, setSecret] = useState<string>();
  const query = useQuery(webhooksQuery);
  const opened = query.data?.find(({ id }) => id === openedId);
  const open = (webhook: string | undefined): void =>
    void navigate({ search: (now) => readAccessSearch({ ...now, webhook }) });
  const columns: ShortColumn<Webhook>[] = [
    {
      key: 'url',
      title: webhooks.columns.url,
      cell: ({ url, allAccounts }) => (
        <Group gap={6}>
          <Text span size="sm" ff="monospace" style={{ overflowWrap: 'anywhere' }}>
            {url}
          </Text>
          {allAccounts && (
            <Badge size="xs" variant="light" tt="none">
              {webhooks.allAccounts}
            </Badge>
          )}
        </Group>
      ),
    },
    {
      key: 'kinds',
      title: webhooks.columns.kinds,
      cell: ({ kinds }) => (kinds.length === 0 ? webhooks.all : kinds.join(', ')),
    },
    { key: 'state', title: webhooks.columns.state, width: 170, cell: (row) => <WebhookState webhook={row} /> },
    {
      key: 'act',
      title: '',
      align: 'right',
      width: 170,
      cell: (row) => <WebhookActs webhook={row} onDeliveries={() => open(row.id)} onChanged={reload} />,
    },
  ];
  return (
    <Stack gap="lg">
      <TabList
        label={webhooks.list}
        hint={webhooks.hint}
        add={webhooks.create}
        onAdd={() => onCreating(true)}
        query={query}
        columns={columns}
        keyOf={({ id }) => id}
        empty={webhooks.empty}
      />
      {opened !== undefined && <Deliveries webhook={opened} onClose={() => open(undefined)} />}
      {isCreating && (
        <WebhookModal
          onDone={(made) => {
            setSecret(made);
            reload();
          }}
          onClose={() => onCreating(false)}
        />
      )}
      {secret !== undefined && (
        <SecretOnce
          title={webhooks.secretTitle}
          secret={secret}
          hint={webhooks.secretHint}
          onClose={() => setSecret(undefined)}
        />
      )}
    </Stack>
  );
}

function WebhookState({ webhook: { enabled, failingSinceUnixMs, lastError } }: { webhook: Webhook }) {
  const { states } = useTexts().access.webhooks;
  const { duration } = useFormat();
  const nowMs = useNow();
  if (!enabled)
    return lastError === '' ? (
      <StateWord kind="rests" word={states.paused} />
    ) : (
      <StateWord kind="bad" word={states.off} why={lastError} />
    );
  if (failingSinceUnixMs === null)
    return lastError === '' ? (
      <StateWord kind="good" word={states.good} />
    ) : (
      <StateWord kind="warns" word={states.refuses} why={lastError} />
    );
  return (
    <StateWord
      kind="warns"
      word={states.failing(duration(Math.max(1_000, nowMs - failingSinceUnixMs)))}
      why={lastError}
    />
  );
}

interface WebhookActsProps {
  webhook: Webhook;
  onDeliveries: () => void;
  onChanged: () => void;
}

function WebhookActs({ webhook, onDeliveries, onChanged }: WebhookActsProps) {
  const { access, common } = useTexts();
  const { webhooks } = access;
  const { id, url, enabled } = webhook;
  const [dialog, setDialog] = useState<'edit' | 'delete' | null>(null);
  const test = useTest();
  const pause = useOneAct({
    act: () => api.updateWebhook({ id, enabled: !enabled }),
    said: () => (enabled ? webhooks.paused : webhooks.resumed),
    stale: ['webhooks'],
  });
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      <Button variant="default" loading={test.isPending} onClick={() => test.mutate(id)}>
        {webhooks.test}
      </Button>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon aria-label={`${common.more}: ${url}`}>
            <IconDotsVertical size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={onDeliveries}>{webhooks.deliveries}</Menu.Item>
          <Menu.Item onClick={() => setDialog('edit')}>{webhooks.edit}</Menu.Item>
          <Menu.Item onClick={() => pause.mutate()}>{enabled ? webhooks.pause : webhooks.resume}</Menu.Item>
          <Menu.Divider />
          <Menu.Item color="red" onClick={() => setDialog('delete')}>
            {common.delete}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {dialog === 'edit' && <WebhookModal webhook={webhook} onDone={onChanged} onClose={() => setDialog(null)} />}
      {dialog === 'delete' && (
        <ConfirmModal
          title={webhooks.deleteTitle(url)}
          loses={[webhooks.deleteLoses]}
          verb={common.delete}
          act={() => api.deleteWebhook({ id })}
          onDone={onChanged}
          onClose={() => setDialog(null)}
        />
      )}
    </Group>
  );
}

/** Sends a test, and says what the receiver answered. */
function useTest() {
  const { webhooks } = useTexts().access;
  const queries = useQueryClient();
  return useOneAct({
    async act(id: string) {
      const { delivered, status, answer, tookMs } = await api.testWebhook({ id });
      notifications.show({
        message: delivered ? webhooks.tested(status, tookMs) : webhooks.testFailed(answer),
        color: delivered ? 'teal' : 'red',
        autoClose: delivered,
      });
      await queries.invalidateQueries({ queryKey: ['webhooks'] });
    },
  });
}
