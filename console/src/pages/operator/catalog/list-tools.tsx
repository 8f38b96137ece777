/** Above a list of the catalog: what adds to it, a filter by name, and retired rows. */
import { Button, Group, Switch } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useSession } from '../../../app/session.ts';
import { FilterInput } from '../../../parts/filter-input.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { CatalogSearch } from '../search.ts';

interface ListToolsProps {
  search: CatalogSearch;
  change: (over: CatalogSearch) => void;
  /** Words of the button that adds a row, for administrators. */
  add: string;
  onAdd: () => void;
}

export function ListTools({ search: { q, retired }, change, add, onAdd }: ListToolsProps) {
  const { catalog } = useTexts();
  const { isAdmin } = useSession();
  return (
    <Group mb="xs" gap="xs">
      {isAdmin && (
        <Button leftSection={<IconPlus size={14} />} onClick={onAdd}>
          {add}
        </Button>
      )}
      <FilterInput value={q} onChange={(text) => change({ q: text })} />
      <Switch
        size="xs"
        label={catalog.withRetired}
        checked={retired ?? false}
        onChange={({ currentTarget }) => change({ retired: currentTarget.checked ? true : undefined })}
      />
    </Group>
  );
}

/** Rows that the filter and the switch show. */
export const shownRows = <Row extends { name: string; retired: boolean }>(
  rows: readonly Row[],
  { q = '', retired }: CatalogSearch,
): Row[] =>
  rows.filter((row) => (retired === true || !row.retired) && row.name.toLowerCase().includes(q.toLowerCase()));
