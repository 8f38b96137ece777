/** Figures of an instance over the last hours, as charts and as a table. */
import { Group, Paper, SegmentedControl, Text, Title, useComputedColorScheme } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import type { Chart } from './chart.ts';
import { FiguresTable } from './figures-table.tsx';
import { chartsOf, spanOf, timesOf, type ChartData, type Metrics } from './figures.ts';
import type { TabProps } from './tab-props.ts';
import classes from './instance.module.css';
import { ranges } from './search.ts';
import { useUnits } from './units.ts';

const SAMPLE_MS = 15_000;
const GB = 1024 ** 3;
/** Told apart without colour by their order and the legend; these differ in lightness, too. */
const lineColors = { light: ['#007582', '#c2410c'], dark: ['#48aebf', '#fb923c'] } as const;

export function FiguresTab({ view, search, change }: TabProps) {
  const { figures: texts, tabs } = useTexts().instance;
  const { instance } = view;
  const instanceId = idOf(instance);
  const range = search.range ?? '1h';
  const metrics = useQuery({
    queryKey: ['instanceFigures', 'one', instanceId, range],
    queryFn: () => api.metrics({ instanceId, ...spanOf(range, Date.now()) }),
    refetchInterval: range === '1h' ? SAMPLE_MS : SAMPLE_MS * 4,
    placeholderData: keepPreviousData,
  });
  const { cpu, memory } = instance.instanceSpecInfo.instanceTypeInfo;
  const limits = { cores: cpu.amount, memoryBytes: memory.amount * GB };
  const charts = metrics.data ? chartsOf(metrics.data, limits) : [];
  const isEmpty = metrics.data?.series.cpuMilli.mean.every((value) => value === null) ?? false;
  return (
    <>
      <Group gap="sm" mb="xs">
        <SegmentedControl
          size="xs"
          aria-label={texts.range}
          value={range}
          onChange={(value) => change({ range: ranges.find((one) => one === value) ?? '1h' })}
          data={ranges.map((value) => ({ value, label: texts.ranges[value] }))}
        />
        {isEmpty && (
          <Text size="sm" c="dimmed">
            {texts.none}
          </Text>
        )}
      </Group>
      {metrics.isError && metrics.data === undefined && (
        <Trouble error={metrics.error} onRetry={() => void metrics.refetch()} />
      )}
      {metrics.isPending && <Loading h={420} label={tabs.figures} />}
      {metrics.data && (
        <>
          <div className={classes.charts}>
            {charts.map((data) => (
              <ChartCard key={data.key} data={data} metrics={metrics.data} />
            ))}
          </div>
          <FiguresTable charts={charts} />
        </>
      )}
    </>
  );
}

function ChartCard({ data, metrics }: { data: ChartData; metrics: Metrics }) {
  const { figures: texts } = useTexts().instance;
  const { moment } = useFormat();
  const units = useUnits();
  const scheme = useComputedColorScheme('light');
  const box = useRef<HTMLDivElement>(null);
  const colors = lineColors[scheme];
  const format = units[data.unit];
  const title = texts.charts[data.name](data.gpu ?? 0);
  useEffect(() => {
    let isCurrent = true;
    let chart: Chart | null = null;
    void import('./chart.ts').then(({ drawChart }) => {
      if (!isCurrent || box.current === null) return;
      const style = getComputedStyle(box.current);
      const variable = (name: string): string => style.getPropertyValue(`--mantine-color-${name}`);
      chart = drawChart(box.current, {
        times: timesOf(metrics),
        lines: data.lines.map(({ mean }, index) => ({ values: mean, color: colors[index] ?? colors[0] })),
        limit: data.limit,
        fromS: metrics.fromUnixMs / 1000,
        toS: metrics.toUnixMs / 1000,
        format,
        isBinary: data.unit === 'memory',
        formatTime: (seconds) => moment(seconds * 1000),
        colors: { text: variable('dimmed'), grid: variable('default-border'), limit: variable('red-7') },
      });
    });
    return () => {
      isCurrent = false;
      chart?.destroy();
    };
  }, [data, metrics, colors, format, moment]);
  return (
    <Paper withBorder p="sm">
      <Group justify="space-between" gap="xs" mb={4}>
        <Title order={2} fz="sm">
          {title}
        </Title>
        <div className={classes.legend}>
          {data.lines.map(({ name, now }, index) => (
            <Text key={name} span size="xs">
              <span className={classes.key} style={{ borderTopColor: colors[index] ?? colors[0] }} aria-hidden />
              {data.lines.length > 1 && `${texts.lines[name]} `}
              {now === null ? '–' : format(now)}
            </Text>
          ))}
          {data.limit !== null && (
            <Text span size="xs" c="dimmed">
              {texts.limit(format(data.limit))}
            </Text>
          )}
        </div>
      </Group>
      <div ref={box} className={classes.chart} role="img" aria-label={texts.chartLabel(title)} />
    </Paper>
  );
}
