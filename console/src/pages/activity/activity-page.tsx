/** What happened in the account, as it comes. The address holds the filters. */
import { ActionIcon, Group, NativeSelect, Pill, Stack, Text, Title } from '@mantine/core';
import { IconFilter } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useEffect, useMemo, useSyncExternalStore } from 'react';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { FilterInput } from '../../parts/filter-input.tsx';
import { ButtonLink } from '../../parts/links.tsx';
import { PagedTable, type Column } from '../../parts/paged-table.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { filtered, makeHistory, namesIn, subjectOf, type PastEvent } from './history.ts';
import { readActivitySearch, type ActivitySearch } from './search.ts';
import { sentenceOf } from './sentence.ts';
import { Subject } from './subject.tsx';

const route = getRouteApi('/activity');
const CARD_PX = 84;
const history = makeHistory({ events: (options) => api.events(options) });

export function ActivityPage() {
  const texts = useTexts();
  const { activity, common } = texts;
  const { money, size } = useFormat();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  useEffect(() => history.follow(), []);
  const view = useSyncExternalStore(history.subscribe, history.view);
  const names = useMemo(() => namesIn(view.events), [view.events]);
  const change = (over: ActivitySearch): void =>
    void navigate({ search: (now) => readActivitySearch({ ...now, ...over }), replace: true });
  const nameOf = ({ subjectId }: PastEvent): string => names.get(subjectId) ?? '';
  const say = (event: PastEvent) => sentenceOf(event, texts, { money, size });
  const rows = useMemo(
    () =>
      filtered(view.events, search, (event) => {
        const { happened, details } = sentenceOf(event, texts, { money, size });
        const noun = texts.activity.nouns[subjectOf(event.kind)] ?? '';
        return `${noun} ${names.get(event.subjectId) ?? ''} ${happened} ${details} ${event.kind}`;
      }),
    [view.events, search, names, texts, money, size],
  );
  const { kind, subject, q } = search;
  const isFiltered = kind !== undefined || subject !== undefined || q !== undefined;
  const subjects = useMemo(() => [...new Set(view.events.map((event) => subjectOf(event.kind)))], [view.events]);
  const onSubject = (subjectId: string): void => change({ subject: subjectId });
  const columns: Column<PastEvent, never>[] = [
    {
      key: 'at',
      title: activity.columns.at,
      width: '120px',
      cell: ({ atUnixMs }) => (
        <Text span size="sm">
          <RelativeTime atMs={atUnixMs} />
        </Text>
      ),
    },
    {
      key: 'subject',
      title: activity.columns.subject,
      width: 'minmax(150px, 1.2fr)',
      cell: (event) => <Subject event={event} name={nameOf(event)} />,
    },
    {
      key: 'happened',
      title: activity.columns.happened,
      width: 'minmax(150px, 1fr)',
      cell: (event) => <Text size="sm">{say(event).happened}</Text>,
    },
    {
      key: 'details',
      title: activity.columns.details,
      width: 'minmax(120px, 1.4fr)',
      cell: (event) => (
        <Text size="sm" c="dimmed" truncate title={say(event).details}>
          {say(event).details}
        </Text>
      ),
    },
    {
      key: 'act',
      title: activity.columns.act,
      width: '40px',
      align: 'right',
      cell: (event) => <OnlyThis event={event} name={nameOf(event)} onSubject={onSubject} />,
    },
  ];
  return (
    <>
      <Group gap="sm" mb="sm" mih={28}>
        <Title order={1}>{activity.title}</Title>
        <Text size="sm" c="dimmed">
          {view.isRead ? activity.hint : activity.reading}
        </Text>
      </Group>
      <Group mb="xs" gap="xs">
        <FilterInput value={q} label={activity.search} onChange={(text) => change({ q: text })} />
        <NativeSelect
          size="xs"
          aria-label={activity.filterKind}
          value={kind ?? ''}
          onChange={({ currentTarget }) => change({ kind: currentTarget.value })}
          data={[
            { value: '', label: activity.allKinds },
            ...[...new Set([...subjects, ...(kind === undefined ? [] : [kind])])].map((value) => ({
              value,
              label: activity.subjects[value] ?? value,
            })),
          ]}
        />
        {subject !== undefined && (
          <Pill
            withRemoveButton
            size="md"
            onRemove={() => change({ subject: undefined })}
            removeButtonProps={{ 'aria-label': activity.clearSubject, 'aria-hidden': false, tabIndex: 0 }}
          >
            {activity.onlySubject(names.get(subject) ?? subject)}
          </Pill>
        )}
      </Group>
      {view.error !== null && <Trouble error={view.error} />}
      <PagedTable
        label={activity.list}
        queryKey={['activity', view.version, search]}
        fetchPage={({ currentPage, pageSize }) =>
          Promise.resolve({
            rows: rows.slice((currentPage - 1) * pageSize, currentPage * pageSize),
            total: rows.length,
          })
        }
        columns={columns}
        keyOf={({ seq }) => String(seq)}
        card={(event) => <Card event={event} name={nameOf(event)} sentence={say(event)} onSubject={onSubject} />}
        cardPx={CARD_PX}
        empty={
          !view.isRead ? null : isFiltered ? (
            <EmptyState title={common.nothingMatches} text="">
              <ButtonLink variant="default" to="/activity" search={{}}>
                {common.clearFilters}
              </ButtonLink>
            </EmptyState>
          ) : (
            <EmptyState {...activity.empty} />
          )
        }
      />
      {view.isRead && view.hasOlder && (
        <Text size="xs" c="dimmed">
          {activity.older}
        </Text>
      )}
    </>
  );
}

interface OnlyThisProps {
  event: PastEvent;
  name: string;
  onSubject: (subjectId: string) => void;
}

function OnlyThis({ event: { subjectId, kind }, name, onSubject }: OnlyThisProps) {
  const { activity } = useTexts();
  const label = activity.showSubject(name || (activity.nouns[subjectOf(kind)] ?? kind));
  return (
    <ActionIcon size="sm" aria-label={label} title={label} onClick={() => onSubject(subjectId)}>
      <IconFilter size={14} />
    </ActionIcon>
  );
}

interface CardProps extends OnlyThisProps {
  sentence: ReturnType<typeof sentenceOf>;
}

function Card({ event, name, sentence: { happened, details }, onSubject }: CardProps) {
  return (
    <Stack gap={2}>
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <Subject event={event} name={name} />
        <OnlyThis event={event} name={name} onSubject={onSubject} />
      </Group>
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <Text size="sm" truncate>
          {happened}
        </Text>
        <Text span size="xs" c="dimmed" style={{ whiteSpace: 'nowrap' }}>
          <RelativeTime atMs={event.atUnixMs} />
        </Text>
      </Group>
      <Text size="xs" c="dimmed" truncate>
        {details}
      </Text>
    </Stack>
  );
}
