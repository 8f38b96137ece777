/** A chart on a canvas. Loaded when shown. */
import 'uplot/dist/uPlot.min.css';
import uPlot from 'uplot';
import type { ChartFacts } from './chart-facts.ts';

export interface ChartView extends Omit<ChartFacts, 'lines'> {
  lines: readonly { values: readonly (number | null)[]; color: string }[];
  format: (value: number) => string;
  formatTime: (seconds: number) => string;
  /** Ticks of the axis. */
  formatTick: (seconds: number) => string;
  colors: { text: string; grid: string; limit: string };
}

const HEIGHT_PX = 170;
const MB = 1024 ** 2;
const wholes = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const binarySteps = [MB, 1024 * MB, 1024 * 1024 * MB].flatMap((unit) => wholes.map((count) => count * unit));
/** So much of the limit must be used before the limit is in the picture. */
const LIMIT_SHARE = 0.25;

export interface Chart {
  destroy(): void;
}

const mostOf = (lines: readonly { values: readonly (number | null)[] }[]): number =>
  lines.reduce((most, { values }) => values.reduce<number>((high, value) => Math.max(high, value ?? 0), most), 0);

export function drawChart(box: HTMLElement, view: ChartView): Chart {
  const { times, lines, limits, fromS, toS, format, formatTime, formatTick, isBinary, colors } = view;
  const limit = limits === null ? null : mostOf([{ values: limits }]);
  const most = mostOf(lines);
  const showsLimit = limit !== null && most >= limit * LIMIT_SHARE;
  const top = Math.max(most * 1.1, showsLimit ? limit * 1.05 : 0) || (limit ?? 1);
  const axis = {
    stroke: colors.text,
    grid: { stroke: colors.grid, width: 1 },
    ticks: { show: false },
    font: '11px system-ui',
  };
  const dashed = limits === null ? [] : [[...limits]];
  const chart = new uPlot(
    {
      width: box.clientWidth || 300,
      height: HEIGHT_PX,
      legend: { show: false },
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { time: true, range: [fromS, toS] }, y: { range: [0, top] } },
      axes: [
        { ...axis, values: (_, splits) => splits.map(formatTick), space: 70, size: 28 },
        {
          ...axis,
          values: (_, splits) => splits.map(format),
          size: 64,
          space: 36,
          ...(isBinary ? { incrs: binarySteps } : {}),
        },
      ],
      series: [
        {},
        ...lines.map(({ color }) => ({ stroke: color, width: 1.5, points: { show: false }, spanGaps: false })),
        ...dashed.map(() => ({ stroke: colors.limit, width: 1, dash: [5, 4], points: { show: false } })),
      ],
      plugins: [hover(format, formatTime, lines.length)],
    },
    [[...times], ...lines.map(({ values }) => [...values]), ...dashed],
    box,
  );
  const observer = new ResizeObserver(() => chart.setSize({ width: box.clientWidth, height: HEIGHT_PX }));
  observer.observe(box);
  return {
    destroy() {
      observer.disconnect();
      chart.destroy();
    },
  };
}

/** The values under the pointer. */
function hover(
  format: (value: number) => string,
  formatTime: (seconds: number) => string,
  count: number,
): uPlot.Plugin {
  const tip = document.createElement('div');
  tip.className = 'chart-tip';
  tip.hidden = true;
  return {
    hooks: {
      init: (chart) => chart.over.append(tip),
      setCursor: ({ cursor: { idx, left = 0 }, data, over }) => {
        const at = idx ?? -1;
        const time = data[0][at];
        tip.hidden = time === undefined || left < 0;
        if (time === undefined) return;
        const values = data.slice(1, count + 1).map((line) => line?.[at] ?? null);
        tip.textContent = [formatTime(time), ...values.map((value) => (value === null ? '–' : format(value)))].join(
          '  ',
        );
        tip.style.transform = `translateX(${Math.min(left, over.clientWidth - tip.offsetWidth)}px)`;
      },
    },
  };
}
