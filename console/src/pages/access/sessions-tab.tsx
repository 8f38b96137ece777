/** Logins of the account, and browsers that have an instance open; each can be ended. */
import { Badge, Button, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { ConfirmModal } from '../../parts/confirm-modal.tsx';
import { AnchorLink } from '../../parts/links.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { ShortTable, type ShortColumn } from '../../parts/short-table.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useOneAct } from '../../parts/use-one-act.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from '../instances/allowed-acts.ts';
import { mountingQuery as instancesQuery } from '../volumes/queries.ts';
import { loginsQuery, sessionsQuery } from './queries.ts';
import { programOf } from './user-agent.ts';

type Login = AnswerOf<'listLogins'>['logins'][number];
type Session = AnswerOf<'listSessions'>['sessions'][number];

export function SessionsTab() {
  return (
    <Stack gap="xl">
      <Logins />
      <Sessions />
    </Stack>
  );
}

function useProgramName(): (userAgent: string) => string {
  const { sessions } = useTexts().access;
  return (userAgent) => {
    const { browser, system } = programOf(userAgent);
    if (browser === '') return userAgent === '' ? sessions.unknownBrowser : userAgent.slice(0, 40);
    return system === '' ? browser : sessions.on(browser, system);
  };
}

function Logins() {
  const { sessions } = useTexts().access;
  const logins = useQuery(loginsQuery);
  const programName = useProgramName();
  const [isEndingOthers, setEndingOthers] = useState(false);
  const end = useOneAct({
    act: (id: string) => api.revokeLogin({ id }),
    said: () => sessions.ended,
    stale: loginsQuery.queryKey,
  });
  const rows = logins.data ?? [];
  const others = rows.filter(({ current }) => !current);
  const columns: ShortColumn<Login>[] = [
    {
      key: 'browser',
      title: sessions.columns.browser,
      cell: ({ userAgent, current }) => (
        <Group gap={6}>
          <span title={userAgent}>{programName(userAgent)}</span>
          {current && (
            <Badge size="xs" variant="light" tt="none">
              {sessions.current}
            </Badge>
          )}
        </Group>
      ),
    },
    { key: 'address', title: sessions.columns.address, cell: ({ address }) => address || '–' },
    {
      key: 'since',
      title: sessions.columns.since,
      cell: ({ createdAtUnixMs }) => <RelativeTime atMs={createdAtUnixMs} />,
    },
    {
      key: 'used',
      title: sessions.columns.used,
      cell: ({ lastUsedAtUnixMs }) => <RelativeTime atMs={lastUsedAtUnixMs} />,
    },
    {
      key: 'expires',
      title: sessions.columns.expires,
      cell: ({ expiresAtUnixMs }) => <RelativeTime atMs={expiresAtUnixMs} isFuture />,
    },
    {
      key: 'act',
      title: '',
      align: 'right',
      // The menu of the account ends the login of this browser.
      cell: ({ id, current, userAgent }) =>
        !current && (
          <Button
            variant="default"
            aria-label={sessions.endLogin(programName(userAgent))}
            loading={end.isPending && end.variables === id}
            onClick={() => end.mutate(id)}
          >
            {sessions.end}
          </Button>
        ),
    },
  ];
  return (
    <section>
      <Group justify="space-between" mb={4}>
        <Title order={2}>{sessions.logins}</Title>
        {others.length > 1 && (
          <Button variant="default" onClick={() => setEndingOthers(true)}>
            {sessions.endOthers}
          </Button>
        )}
      </Group>
      <Text size="sm" c="dimmed" mb="xs" maw={720}>
        {sessions.loginsHint}
      </Text>
      {logins.isError ? (
        <Trouble error={logins.error} onRetry={() => void logins.refetch()} />
      ) : (
        <ShortTable label={sessions.logins} rows={rows} columns={columns} keyOf={({ id }) => id} />
      )}
      {isEndingOthers && (
        <ConfirmModal
          title={sessions.othersTitle}
          loses={[sessions.othersLoses(others.length)]}
          keeps={sessions.othersKeeps}
          verb={sessions.endOthers}
          act={() => Promise.all(others.map(({ id }) => api.revokeLogin({ id })))}
          onDone={() => void logins.refetch()}
          onClose={() => setEndingOthers(false)}
        />
      )}
    </section>
  );
}

function Sessions() {
  const { sessions } = useTexts().access;
  const query = useQuery(sessionsQuery);
  const rows = query.data ?? [];
  const ids = [...new Set(rows.map(({ instanceId }) => instanceId))];
  const instances = useQuery({ ...instancesQuery(ids), enabled: ids.length > 0 }).data ?? [];
  const instanceName = (id: string): string => {
    const instance = instances.find((one) => idOf(one) === id);
    return instance === undefined ? id : nameOf(instance);
  };
  const end = useOneAct({
    act: (id: string) => api.revokeSession({ id }),
    said: () => sessions.ended,
    stale: sessionsQuery.queryKey,
  });
  const columns: ShortColumn<Session>[] = [
    {
      key: 'instance',
      title: sessions.columns.instance,
      cell: ({ instanceId }) => (
        <AnchorLink size="sm" to="/instances/$instanceId" params={{ instanceId }}>
          {instanceName(instanceId)}
        </AnchorLink>
      ),
    },
    { key: 'from', title: sessions.columns.from, cell: ({ from }) => sessions.from(from) },
    {
      key: 'since',
      title: sessions.columns.since,
      cell: ({ openedAtUnixMs }) => <RelativeTime atMs={openedAtUnixMs} />,
    },
    {
      key: 'used',
      title: sessions.columns.used,
      cell: ({ lastUsedAtUnixMs }) => <RelativeTime atMs={lastUsedAtUnixMs} />,
    },
    {
      key: 'act',
      title: '',
      align: 'right',
      cell: ({ id, instanceId }) => (
        <Button
          variant="default"
          aria-label={sessions.endSession(instanceName(instanceId))}
          loading={end.isPending && end.variables === id}
          onClick={() => end.mutate(id)}
        >
          {sessions.end}
        </Button>
      ),
    },
  ];
  return (
    <section>
      <Title order={2} mb={4}>
        {sessions.gateway}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {rows.length === 0 && query.isSuccess ? sessions.none : sessions.gatewayHint}
      </Text>
      {query.isError && <Trouble error={query.error} onRetry={() => void query.refetch()} />}
      {rows.length > 0 && <ShortTable label={sessions.gateway} rows={rows} columns={columns} keyOf={({ id }) => id} />}
    </section>
  );
}
