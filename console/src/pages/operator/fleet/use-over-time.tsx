/** Capacity, promises and use of each region over time. */
import { SegmentedControl, Stack, Text, Title } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { ChartCard } from '../../../parts/chart-card.tsx';
import classes from '../../../parts/chart-card.module.css';
import { Loading } from '../../../parts/loading.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { historyRanges } from '../search.ts';
import { fleetQuery, type FleetRegion } from './query.ts';
import { rangeMs, chartsOfRegion, type UseChart, type UseRange } from './use-charts.ts';

/** A point is stored each five minutes. */
const FRESH_MS = 5 * 60_000;

interface UseOverTimeProps {
  range: UseRange;
  onRange: (range: UseRange) => void;
}

export function UseOverTime({ range, onRange }: UseOverTimeProps) {
  const { fleet } = useTexts();
  const found = useQuery(fleetQuery);
  if (found.isError) return <Trouble error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <Loading h={420} label={fleet.tabs.use} />;
  return (
    <Stack gap="md" align="stretch">
      <div>
        <SegmentedControl
          size="xs"
          aria-label={fleet.range}
          value={range}
          onChange={(value) => onRange(historyRanges.find((one) => one === value) ?? 'day')}
          data={historyRanges.map((value) => ({ value, label: fleet.ranges[value] }))}
        />
      </div>
      {found.data.regions.map((region) => (
        <RegionUse key={region.regionId} region={region} range={range} />
      ))}
    </Stack>
  );
}

function RegionUse({ region: { regionId, regionName }, range }: { region: FleetRegion; range: UseRange }) {
  const { fleet } = useTexts();
  const history = useQuery({
    queryKey: ['fleetHistory', regionId, range],
    queryFn: async () => {
      const toMs = Date.now();
      const fromMs = toMs - rangeMs[range];
      const answer = await api.fleetHistory({ regionId, fromUnixMs: fromMs, toUnixMs: toMs });
      return chartsOfRegion(answer, { fromMs, toMs });
    },
    refetchInterval: FRESH_MS,
    placeholderData: keepPreviousData,
  });
  return (
    <section>
      <Title order={2} mb="xs">
        {regionName}
      </Title>
      {history.isError && <Trouble error={history.error} onRetry={() => void history.refetch()} />}
      {history.isPending && <Loading h={420} label={regionName} />}
      {history.data?.length === 0 && (
        <Text size="sm" c="dimmed">
          {fleet.noUse}
        </Text>
      )}
      <div className={classes.charts}>
        {history.data?.map((chart) => (
          <RegionChart key={chart.name} chart={chart} isLong={range !== 'day'} />
        ))}
      </div>
    </section>
  );
}

function RegionChart({ chart, isLong }: { chart: UseChart; isLong: boolean }) {
  const { fleet } = useTexts();
  const { count, date, percent } = useFormat();
  const { name, facts, now, promised, used } = chart;
  const format = useMemo(() => (value: number) => count(Math.round(value * 10) / 10), [count]);
  const title = fleet.chartNames[name];
  const summary = fleet.useShare(
    percent(promised.mean),
    percent(promised.most),
    used === null ? fleet.unknown : percent(used),
  );
  return (
    <ChartCard
      title={title}
      label={`${title}. ${summary}`}
      facts={facts}
      legend={[fleet.promisedNow(format(now.promised)), fleet.usedNow(now.used === null ? '–' : format(now.used))]}
      limit={fleet.capacityNow(format(now.total))}
      format={format}
      {...(isLong ? { formatTick: date } : {})}
    >
      <Text size="xs" c="dimmed">
        {summary}
      </Text>
    </ChartCard>
  );
}
