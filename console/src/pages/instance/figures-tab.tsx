/** Figures of an instance over the last hours, as charts and as a table. */
import { Group, SegmentedControl, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { api } from '../../app/api.ts';
import { ChartCard } from '../../parts/chart-card.tsx';
import type { ChartFacts } from '../../parts/chart-facts.ts';
import classes from '../../parts/chart-card.module.css';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import { FiguresTable } from './figures-table.tsx';
import { chartsOf, spanOf, timesOf, type ChartData, type Metrics } from './figures.ts';
import type { TabProps } from './tab-props.ts';
import { ranges } from './search.ts';
import { useUnits } from './units.ts';

const SAMPLE_MS = 15_000;
const GB = 1024 ** 3;
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
              <FigureChart key={data.key} data={data} metrics={metrics.data} />
            ))}
          </div>
          <FiguresTable charts={charts} />
        </>
      )}
    </>
  );
}

function FigureChart({ data, metrics }: { data: ChartData; metrics: Metrics }) {
  const { figures: texts } = useTexts().instance;
  const format = useUnits()[data.unit];
  const title = texts.charts[data.name](data.gpu ?? 0);
  const facts = useMemo((): ChartFacts => {
    const times = timesOf(metrics);
    return {
      times,
      lines: data.lines.map(({ mean }) => mean),
      limits: data.limit === null ? null : times.map(() => data.limit),
      fromS: metrics.fromUnixMs / 1000,
      toS: metrics.toUnixMs / 1000,
      isBinary: data.unit === 'memory',
    };
  }, [data, metrics]);
  return (
    <ChartCard
      title={title}
      label={texts.chartLabel(title)}
      facts={facts}
      legend={data.lines.map(
        ({ name, now }) => `${data.lines.length > 1 ? `${texts.lines[name]} ` : ''}${now === null ? '–' : format(now)}`,
      )}
      limit={data.limit === null ? undefined : texts.limit(format(data.limit))}
      format={format}
    />
  );
}
