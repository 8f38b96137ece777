/** API keys: what each may do, from where, until when. */
import { Group, Stack, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { base } from '../../app/base.ts';
import { useFormat } from '../../app/format.ts';
import { DeleteButton } from '../../parts/delete-button.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import type { ShortColumn } from '../../parts/short-table.tsx';
import { StateWord } from '../../parts/state-word.tsx';
import { TabList } from '../../parts/tab-list.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { TabProps } from './access-page.tsx';
import { CreateKeyModal } from './create-key-modal.tsx';
import { apiKeysQuery } from './queries.ts';

type ApiKey = AnswerOf<'listApiKeys'>['keys'][number];

export function KeysTab({ isCreating, onCreating }: TabProps) {
  const { keys } = useTexts().access;
  const { dateTime } = useFormat();
  const queries = useQueryClient();
  const reload = (): void => void queries.invalidateQueries({ queryKey: apiKeysQuery.queryKey });
  const [made, setMade] = useState<{ name: string; fullKey: string }>();
  const columns: ShortColumn<ApiKey>[] = [
    { key: 'name', title: keys.columns.name, cell: ({ name }) => name },
    {
      key: 'key',
      title: keys.columns.key,
      cell: ({ prefix, lastFour }) => (
        <Text span size="xs" ff="monospace">
          {prefix}…{lastFour}
        </Text>
      ),
    },
    {
      key: 'scopes',
      title: keys.columns.scopes,
      cell: ({ scopes, addresses }) => (
        <Stack gap={0}>
          <span>{scopes === null ? keys.everything : scopes.join(', ')}</span>
          {addresses !== null && (
            <Text span size="xs" c="dimmed">
              {keys.from(addresses.join(', '))}
            </Text>
          )}
        </Stack>
      ),
    },
    {
      key: 'end',
      title: keys.columns.end,
      cell: ({ state, expiresAtUnixMs }) =>
        state === 'active' || expiresAtUnixMs === null ? (
          expiresAtUnixMs === null ? (
            keys.noEnd
          ) : (
            <RelativeTime atMs={expiresAtUnixMs} isFuture />
          )
        ) : (
          <StateWord kind="bad" word={keys.expired} why={dateTime(expiresAtUnixMs)} />
        ),
    },
    {
      key: 'used',
      title: keys.columns.used,
      cell: ({ lastUsedAtUnixMs }) =>
        lastUsedAtUnixMs === null ? keys.notUsed : <RelativeTime atMs={lastUsedAtUnixMs} />,
    },
    {
      key: 'act',
      title: '',
      align: 'right',
      cell: ({ id, name }) => (
        <Group justify="flex-end">
          <DeleteButton
            name={name}
            title={keys.deleteTitle(name)}
            loses={keys.deleteLoses}
            act={() => api.deleteApiKey({ id })}
            onDone={reload}
          />
        </Group>
      ),
    },
  ];
  return (
    <>
      <TabList
        label={keys.list}
        hint={keys.hint}
        add={keys.create}
        onAdd={() => onCreating(true)}
        query={useQuery(apiKeysQuery)}
        columns={columns}
        keyOf={({ id }) => id}
        empty={keys.empty}
      />
      {isCreating && (
        <CreateKeyModal
          onDone={({ key }) => {
            setMade(key);
            reload();
          }}
          onClose={() => onCreating(false)}
        />
      )}
      {made !== undefined && (
        <SecretOnce
          title={keys.created(made.name)}
          secret={made.fullKey}
          hint={keys.once}
          example={`curl -H 'X-API-Key: ${made.fullKey}' ${window.location.origin}${base}/api/balance`}
          onClose={() => setMade(undefined)}
        />
      )}
    </>
  );
}
