/** A chart with its title, and each line with its value. */
import { Group, Paper, Text, Title, useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef, type ReactNode } from 'react';
import { useFormat } from '../app/format.ts';
import type { Chart } from './chart.ts';
import type { ChartFacts } from './chart-facts.ts';
import classes from './chart-card.module.css';

/** Told apart without colour by their order and the legend; these differ in lightness, too. */
const lineColors = { light: ['#007582', '#c2410c'], dark: ['#48aebf', '#fb923c'] } as const;

interface ChartCardProps {
  title: string;
  /** What a screen reader says of the picture. */
  label: string;
  facts: ChartFacts;
  /** Of each line, in order. */
  legend: readonly string[];
  limit?: string | undefined;
  format: (value: number) => string;
  /** Ticks of the time axis; by default as in the tip. */
  formatTick?: (ms: number) => string;
  children?: ReactNode;
}

export function ChartCard({ title, label, facts, legend, limit, format, formatTick, children }: ChartCardProps) {
  const { moment } = useFormat();
  const scheme = useComputedColorScheme('light');
  const box = useRef<HTMLDivElement>(null);
  const colors = lineColors[scheme];
  const tick = formatTick ?? moment;
  useEffect(() => {
    let isCurrent = true;
    let chart: Chart | null = null;
    void import('./chart.ts').then(({ drawChart }) => {
      if (!isCurrent || box.current === null) return;
      const style = getComputedStyle(box.current);
      const variable = (name: string): string => style.getPropertyValue(`--mantine-color-${name}`);
      chart = drawChart(box.current, {
        ...facts,
        lines: facts.lines.map((values, index) => ({ values, color: colors[index] ?? colors[0] })),
        format,
        formatTime: (seconds) => moment(seconds * 1000),
        formatTick: (seconds) => tick(seconds * 1000),
        colors: { text: variable('dimmed'), grid: variable('default-border'), limit: variable('red-7') },
      });
    });
    return () => {
      isCurrent = false;
      chart?.destroy();
    };
  }, [facts, colors, format, moment, tick]);
  return (
    <Paper withBorder p="sm">
      <Group justify="space-between" gap="xs" mb={4}>
        <Title order={2} fz="sm">
          {title}
        </Title>
        <div className={classes.legend}>
          {legend.map((text, index) => (
            <Text key={text} span size="xs">
              <span className={classes.key} style={{ borderTopColor: colors[index] ?? colors[0] }} aria-hidden />
              {text}
            </Text>
          ))}
          {limit !== undefined && (
            <Text span size="xs" c="dimmed">
              {limit}
            </Text>
          )}
        </div>
      </Group>
      <div ref={box} className={classes.chart} role="img" aria-label={label} />
      {children}
    </Paper>
  );
}
