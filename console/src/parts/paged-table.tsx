/**
 * Table of a list of the API, of any length: the document holds the rows in view alone, and the
 * pages of the list that they are on are asked for. On a phone each row is a card.
 */
import { Box, Skeleton, Text, UnstyledButton, VisuallyHidden } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { IconArrowDown, IconArrowUp } from '@tabler/icons-react';
import { keepPreviousData, useQueries, type QueryKey } from '@tanstack/react-query';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { memo, useCallback, useEffect, useRef, useState, type ReactNode } from 'react';
import { useTexts } from '../texts/provider.tsx';
import { Loading } from './loading.tsx';
import classes from './paged-table.module.css';
import { Trouble } from './trouble.tsx';

const PAGE_ROWS = 100;
const ROW_PX = 44;
const CARD_PX = 148;
/** Rows come and go together: one render for a few steps of the scroll. */
const BLOCK_ROWS = 4;
const OVERSCAN_BLOCKS = 2;

export interface Column<Row, Sort extends string> {
  key: string;
  title: string;
  /** Of a CSS grid, such as `minmax(120px, 2fr)`. */
  width: string;
  cell: (row: Row) => ReactNode;
  /** Order of the API that the title sets. */
  sort?: Sort;
  align?: 'right';
}

export interface Page<Row> {
  rows: readonly Row[];
  total: number;
}

export interface SortState<Sort extends string> {
  by: Sort;
  isDescending: boolean;
}

export interface ListedPages<Row> {
  /** Begins with what `live.ts` makes stale, and holds all filters. */
  queryKey: QueryKey;
  fetchPage: (page: { currentPage: number; pageSize: number }) => Promise<Page<Row>>;
}

/** The page number `at` of a list, from 0. */
export const pageQuery = <Row,>({ queryKey, fetchPage }: ListedPages<Row>, at: number) => ({
  queryKey: [...queryKey, at],
  queryFn: () => fetchPage({ currentPage: at + 1, pageSize: PAGE_ROWS }),
});

interface PagedTableProps<Row, Sort extends string> extends ListedPages<Row> {
  label: string;
  columns: readonly Column<Row, Sort>[];
  keyOf: (row: Row) => string;
  card: (row: Row) => ReactNode;
  cardPx?: number;
  empty: ReactNode;
  sort?: SortState<Sort>;
  onSort?: (sort: SortState<Sort>) => void;
  selection?: {
    keys: { has(key: string): boolean };
    onToggle: (row: Row) => void;
    /** The rows near the view, as they are now. */
    onRows: (rows: readonly Row[]) => void;
    labelOf: (row: Row) => string;
  };
}

export function PagedTable<Row, Sort extends string>(props: PagedTableProps<Row, Sort>) {
  const { label, queryKey, fetchPage, columns, keyOf, card, cardPx = CARD_PX, empty, sort, onSort, selection } = props;
  const { common } = useTexts();
  const isPhone = useMediaQuery('(max-width: 48em)', false, { getInitialValueInEffect: false }) ?? false;
  const top = useRef<HTMLDivElement>(null);
  const [total, setTotal] = useState(0);
  const [isShown, setShown] = useState(false);
  const rowPx = isPhone ? cardPx : ROW_PX;
  const virtualizer = useWindowVirtualizer({
    count: Math.ceil(total / BLOCK_ROWS),
    estimateSize: () => BLOCK_ROWS * rowPx,
    // The first rows come sooner without those that nobody sees yet.
    overscan: isShown ? OVERSCAN_BLOCKS : 0,
    scrollMargin: top.current?.offsetTop ?? 0,
    // Rows have a fixed height, so nothing moves; the scroll to where the window is costs a layout.
    scrollToFn: () => undefined,
  });
  useEffect(() => virtualizer.measure(), [virtualizer, rowPx]);
  useEffect(() => setShown(total > 0), [total]);
  const indexes = virtualizer
    .getVirtualItems()
    .flatMap(({ index }) => Array.from({ length: BLOCK_ROWS }, (_, at) => index * BLOCK_ROWS + at))
    .filter((index) => index < total);
  const first = Math.floor((indexes[0] ?? 0) / PAGE_ROWS);
  const last = Math.floor((indexes.at(-1) ?? 0) / PAGE_ROWS);
  const pages = useQueries({
    queries: Array.from({ length: last - first + 1 }, (_, at) => ({
      ...pageQuery({ queryKey, fetchPage }, first + at),
      placeholderData: keepPreviousData,
    })),
  });
  const known = pages.find(({ data }) => data !== undefined)?.data;
  // In the same render: the rows are there at once.
  if (known !== undefined && known.total !== total) setTotal(known.total);
  const toggle = useLatest((row: Row) => selection?.onToggle(row));
  useEffect(() => selection?.onRows(pages.flatMap(({ data }) => data?.rows ?? [])));
  const failed = pages.find(({ isError }) => isError);
  if (failed && known === undefined) return <Trouble error={failed.error} onRetry={() => void failed.refetch()} />;
  if (known === undefined) return <Loading label={label} />;
  if (known.total === 0) return empty;
  const rowAt = (index: number): Row | undefined =>
    pages[Math.floor(index / PAGE_ROWS) - first]?.data?.rows[index % PAGE_ROWS];
  const template = [...(selection ? ['34px'] : []), ...columns.map(({ width }) => width)].join(' ');
  return (
    <Box role="table" aria-label={label} aria-rowcount={known.total + 1} className={classes.table}>
      {!isPhone && (
        <Box role="row" aria-rowindex={1} className={classes.head} style={{ gridTemplateColumns: template }}>
          {selection && (
            <span role="columnheader">
              <VisuallyHidden>{common.select}</VisuallyHidden>
            </span>
          )}
          {columns.map((column) => (
            <Head key={column.key} column={column} sort={sort} onSort={onSort} />
          ))}
        </Box>
      )}
      <Box ref={top} role="rowgroup" pos="relative" h={total * rowPx}>
        {indexes.map((index) => {
          const row = rowAt(index);
          return (
            <TableRow
              key={row === undefined ? index : keyOf(row)}
              row={row}
              index={index}
              top={index * rowPx}
              height={rowPx}
              template={template}
              columns={columns}
              card={isPhone ? card : null}
              isSelected={row === undefined ? undefined : selection?.keys.has(keyOf(row))}
              selectionLabelOf={selection?.labelOf}
              onToggle={toggle}
            />
          );
        })}
      </Box>
      <Text size="xs" c="dimmed" pt={6}>
        {common.rows(known.total)}
      </Text>
    </Box>
  );
}

interface TableRowProps<Row, Sort extends string> {
  row: Row | undefined;
  index: number;
  top: number;
  height: number;
  template: string;
  columns: readonly Column<Row, Sort>[];
  /** On a phone. */
  card: ((row: Row) => ReactNode) | null;
  /** Undefined: rows cannot be selected. */
  isSelected: boolean | undefined;
  selectionLabelOf: ((row: Row) => string) | undefined;
  onToggle: (row: Row) => void;
}

/** Rendered once for each row that comes into view, not at each step of the scroll. */
// memo forgets that a component is generic.
// oxlint-disable-next-line typescript/no-unsafe-type-assertion
const TableRow = memo(function TableRow<Row, Sort extends string>(props: TableRowProps<Row, Sort>) {
  const { row, index, top, height, template, columns, card, isSelected, selectionLabelOf, onToggle } = props;
  const place = { height, top };
  if (row === undefined || card !== null)
    return (
      <div role="row" aria-rowindex={index + 2} className={card === null ? classes.row : classes.card} style={place}>
        {row === undefined ? <Skeleton h={14} role="cell" /> : <div role="cell">{card?.(row)}</div>}
      </div>
    );
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      className={classes.row}
      style={{ ...place, gridTemplateColumns: template }}
    >
      {isSelected !== undefined && (
        <div role="cell">
          <input
            type="checkbox"
            className={classes.box}
            aria-label={selectionLabelOf?.(row)}
            checked={isSelected}
            onChange={() => onToggle(row)}
          />
        </div>
      )}
      {columns.map(({ key, cell, align }) => (
        <div key={key} role="cell" className={classes.cell} data-align={align}>
          {cell(row)}
        </div>
      ))}
    </div>
  );
}) as <Row, Sort extends string>(props: TableRowProps<Row, Sort>) => ReactNode;

/** The same function at each render, which calls the latest one. */
function useLatest<Given extends unknown[]>(act: (...given: Given) => void): (...given: Given) => void {
  const latest = useRef(act);
  latest.current = act;
  return useCallback((...given) => latest.current(...given), []);
}

interface HeadProps<Row, Sort extends string> {
  column: Column<Row, Sort>;
  sort: SortState<Sort> | undefined;
  onSort: ((sort: SortState<Sort>) => void) | undefined;
}

function Head<Row, Sort extends string>({ column, sort, onSort }: HeadProps<Row, Sort>) {
  const { common } = useTexts();
  const { title, sort: by, align } = column;
  if (by === undefined || onSort === undefined)
    return (
      <Text role="columnheader" span size="xs" c="dimmed" className={classes.cell} data-align={align}>
        {title === '' ? <VisuallyHidden>{common.more}</VisuallyHidden> : title}
      </Text>
    );
  const isSorted = sort?.by === by;
  const Arrow = sort?.isDescending ? IconArrowDown : IconArrowUp;
  return (
    <div
      role="columnheader"
      aria-sort={isSorted ? (sort.isDescending ? 'descending' : 'ascending') : 'none'}
      className={classes.cell}
      data-align={align}
    >
      <UnstyledButton
        className={classes.sort}
        onClick={() => onSort({ by, isDescending: isSorted ? !sort.isDescending : false })}
      >
        {title} {isSorted && <Arrow size={12} />}
      </UnstyledButton>
    </div>
  );
}
