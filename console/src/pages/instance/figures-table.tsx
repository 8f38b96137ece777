/** The charts in numbers: for screen readers, and for whoever wants to copy them. */
import { Paper, Table, Title } from '@mantine/core';
import { useTexts } from '../../texts/provider.tsx';
import { summaryOf, type ChartData } from './figures.ts';
import { useUnits } from './units.ts';

export function FiguresTable({ charts }: { charts: readonly ChartData[] }) {
  const { figures: texts } = useTexts().instance;
  const units = useUnits();
  return (
    <Paper withBorder p="sm" mt="md">
      <Title order={2} fz="sm" mb={4}>
        {texts.table}
      </Title>
      <Table.ScrollContainer
        minWidth={420}
        scrollAreaProps={{ viewportProps: { tabIndex: 0, role: 'region', 'aria-label': texts.table } }}
      >
        <Table fz="sm" verticalSpacing={3}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{texts.figure}</Table.Th>
              <Table.Th ta="right">{texts.now}</Table.Th>
              <Table.Th ta="right">{texts.mean}</Table.Th>
              <Table.Th ta="right">{texts.most}</Table.Th>
              <Table.Th ta="right">{texts.limitTitle}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {charts.flatMap(({ key, name, gpu, unit, lines, limit }) =>
              lines.map((line) => {
                const { now, mean, max } = summaryOf(line);
                const show = (value: number | null): string => (value === null ? '–' : units[unit](value));
                const title = texts.charts[name](gpu ?? 0);
                return (
                  <Table.Tr key={`${key} ${line.name}`}>
                    <Table.Th scope="row" fw={400}>
                      {lines.length > 1 ? `${title}: ${texts.lines[line.name]}` : title}
                    </Table.Th>
                    <Table.Td ta="right">{show(now)}</Table.Td>
                    <Table.Td ta="right">{show(mean)}</Table.Td>
                    <Table.Td ta="right">{show(max)}</Table.Td>
                    <Table.Td ta="right">{show(limit)}</Table.Td>
                  </Table.Tr>
                );
              }),
            )}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Paper>
  );
}
