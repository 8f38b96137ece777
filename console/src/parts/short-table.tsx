/** Table of a list that comes whole. On a phone each row is a card. */
import { Group, Paper, Stack, Table, Text, VisuallyHidden } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import type { ReactNode } from 'react';
import { useTexts } from '../texts/provider.tsx';

export interface ShortColumn<Row> {
  key: string;
  title: string;
  cell: (row: Row) => ReactNode;
  align?: 'right';
  width?: number | string;
}

interface ShortTableProps<Row> {
  label: string;
  rows: readonly Row[];
  /** The first one is the title of a card; one without a title is its acts. */
  columns: readonly ShortColumn<Row>[];
  keyOf: (row: Row) => string;
  /** Second line of a card, instead of its columns one by one. */
  line?: (row: Row) => ReactNode;
}

export function ShortTable<Row>({ label, rows, columns, keyOf, line }: ShortTableProps<Row>) {
  const { common } = useTexts();
  const isPhone = useMediaQuery('(max-width: 48em)', false, { getInitialValueInEffect: false }) ?? false;
  if (isPhone) return <Cards label={label} rows={rows} columns={columns} keyOf={keyOf} line={line} />;
  return (
    <Table aria-label={label} verticalSpacing={6} horizontalSpacing="xs" fz="sm" highlightOnHover>
      <Table.Thead>
        <Table.Tr>
          {columns.map(({ key, title, align, width }) => (
            <Table.Th key={key} ta={align} w={width} fz="xs" fw={400} c="dimmed">
              {title === '' ? <VisuallyHidden>{common.more}</VisuallyHidden> : title}
            </Table.Th>
          ))}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map((row) => (
          <Table.Tr key={keyOf(row)}>
            {columns.map(({ key, cell, align }) => (
              <Table.Td key={key} ta={align} style={{ overflowWrap: 'anywhere' }}>
                {cell(row)}
              </Table.Td>
            ))}
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Cards<Row>({ label, rows, columns, keyOf, line }: ShortTableProps<Row>) {
  const [head, ...rest] = columns;
  const facts = line === undefined ? rest.filter(({ title }) => title !== '') : [];
  const acts = rest.filter(({ title }) => title === '');
  return (
    <Stack gap="xs" role="list" aria-label={label}>
      {rows.map((row) => (
        <Paper key={keyOf(row)} withBorder p="xs" role="listitem">
          <Group justify="space-between" wrap="nowrap" align="flex-start" gap="xs">
            <Text component="div" size="sm" miw={0} style={{ overflowWrap: 'anywhere' }}>
              {head?.cell(row)}
            </Text>
            {acts.map(({ key, cell }) => (
              <div key={key}>{cell(row)}</div>
            ))}
          </Group>
          {line !== undefined && (
            <Text component="div" size="xs" c="dimmed">
              {line(row)}
            </Text>
          )}
          {facts.map(({ key, title, cell }) => (
            <Group key={key} justify="space-between" wrap="nowrap" gap="xs" mt={4} align="flex-start">
              <Text span size="xs" c="dimmed">
                {title}
              </Text>
              <Text component="div" size="xs" ta="right" miw={0} style={{ overflowWrap: 'anywhere' }}>
                {cell(row)}
              </Text>
            </Group>
          ))}
        </Paper>
      ))}
    </Stack>
  );
}
