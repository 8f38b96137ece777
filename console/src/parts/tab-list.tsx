/** A short list of a tab: what it is for, the act that adds to it, its rows. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import type { UseQueryResult } from '@tanstack/react-query';
import { EmptyState } from './empty-state.tsx';
import { Loading } from './loading.tsx';
import { ShortTable, type ShortColumn } from './short-table.tsx';
import { Trouble } from './trouble.tsx';

interface TabListProps<Row> {
  label: string;
  hint: string;
  add: string;
  onAdd: () => void;
  query: UseQueryResult<Row[]>;
  columns: readonly ShortColumn<Row>[];
  keyOf: (row: Row) => string;
  empty: { title: string; text: string };
}

export function TabList<Row>({ label, hint, add, onAdd, query, columns, keyOf, empty }: TabListProps<Row>) {
  const { data, error } = query;
  if (data === undefined)
    return error === null ? <Loading label={label} /> : <Trouble error={error} onRetry={() => void query.refetch()} />;
  const button = (
    <Button leftSection={<IconPlus size={14} />} onClick={onAdd}>
      {add}
    </Button>
  );
  if (data.length === 0) return <EmptyState {...empty}>{button}</EmptyState>;
  return (
    <Stack gap="xs" align="stretch">
      <Text size="sm" c="dimmed" maw={720}>
        {hint}
      </Text>
      <Group>{button}</Group>
      <ShortTable label={label} rows={data} columns={columns} keyOf={keyOf} />
    </Stack>
  );
}
