/**
 * Days of a month as stacked bars, with free time below their line, and above them the sum of the
 * month with its forecast and the budgets. Arrow keys go from day to day; a table says the same.
 */
import { Box, Group, Text, VisuallyHidden } from '@mantine/core';
import { useElementSize } from '@mantine/hooks';
import { useRef, type KeyboardEvent } from 'react';
import { useFormat } from '../../app/format.ts';
import { useSpoken } from '../../texts/provider.tsx';
import classes from './billing.module.css';
import { freePanel, HEIGHT, LEFT, scaleOf, stackOf, sumPath, type Forecast, type Mark } from './chart-scale.ts';
import type { Day } from './month.ts';

/** Colours of the most expensive lines; the rest is grey. */
export const lineColors = ['berth-7', 'yellow-6', 'indigo-4', 'grape-5', 'lime-6', 'orange-7'].map(
  (name) => `var(--mantine-color-${name})`,
);
const REST = 'var(--mantine-color-gray-5)';

interface MonthChartProps {
  days: readonly Day[];
  timeZone: string;
  /** Keys of the lines with a colour, the most expensive first. */
  shown: readonly string[];
  nameOf: (key: string) => string;
  forecast: Forecast | null;
  marks: readonly Mark[];
  chosen: number | undefined;
  onDay: (day: number | undefined) => void;
  onLine: (day: number, key: string) => void;
}

export function MonthChart(props: MonthChartProps) {
  const { days, timeZone, shown, nameOf, forecast, marks, chosen, onDay, onLine } = props;
  const { texts, language } = useSpoken();
  const { billing } = texts;
  const { money, duration } = useFormat();
  const { ref, width } = useElementSize();
  const svg = useRef<SVGSVGElement>(null);
  const scale = scaleOf({ days, width: Math.max(280, width), forecast, marks });
  const dayName = (ms: number): string =>
    new Intl.DateTimeFormat(language, { day: 'numeric', month: 'short', timeZone }).format(ms);
  const labelOf = ({ fromMs, amount, freeMs }: Day): string =>
    [dayName(fromMs), money(amount), ...(freeMs > 0 ? [billing.freeFor(duration(freeMs))] : [])].join(', ');
  const onKey = (event: KeyboardEvent, { number }: Day): void => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      svg.current?.querySelector<SVGElement>(`[data-day="${number + step}"]`)?.focus();
    }
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      onDay(number === chosen ? undefined : number);
    }
  };
  const everyNth = days.length * 26 > scale.x(days.at(-1)?.untilMs ?? 0) - LEFT ? 5 : 1;
  return (
    <Box ref={ref}>
      <svg ref={svg} width="100%" height={HEIGHT} role="group" aria-label={billing.chart} className={classes.chart}>
        <defs>
          <pattern id="free-time" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <line x1="0" y1="0" x2="0" y2="4" stroke="var(--mantine-color-gray-6)" strokeWidth="1.4" />
          </pattern>
        </defs>
        <g aria-hidden fontSize={11} fill="var(--mantine-color-dimmed)">
          <text x={LEFT - 6} y={scale.sumY(scale.sumTop) + 4} textAnchor="end">
            {money(scale.sumTop)}
          </text>
          <text x={LEFT - 6} y={scale.sumZero} textAnchor="end">
            0
          </text>
          <text x={LEFT - 6} y={scale.dayY(scale.dayTop) + 4} textAnchor="end">
            {money(scale.dayTop)}
          </text>
          <text x={LEFT - 6} y={scale.zero} textAnchor="end">
            0
          </text>
          <text x={LEFT - 6} y={freePanel.bottom - 8} textAnchor="end">
            {billing.freeShort}
          </text>
          {[scale.sumZero, scale.zero, scale.sumY(scale.sumTop), scale.dayY(scale.dayTop)].map((y) => (
            <line key={y} x1={LEFT} x2="100%" y1={y} y2={y} stroke="var(--mantine-color-default-border)" />
          ))}
          {scale.shownMarks.map(({ name, amount, isHard }) => (
            <g key={`${name} ${amount}`}>
              <line
                x1={LEFT}
                x2="100%"
                y1={scale.sumY(amount)}
                y2={scale.sumY(amount)}
                stroke={`var(--mantine-color-${isHard ? 'red' : 'orange'}-7)`}
                strokeDasharray={isHard ? undefined : '2 3'}
              />
              <text x={LEFT + 6} y={scale.sumY(amount) - 3}>
                {isHard ? billing.hardMark(name, money(amount)) : billing.softMark(name, money(amount))}
              </text>
            </g>
          ))}
          <path d={sumPath(days, scale, forecast)} fill="none" stroke="var(--mantine-color-berth-7)" strokeWidth={2} />
          {forecast && (
            <line
              x1={scale.x(forecast.nowMs)}
              y1={scale.sumY(forecast.toDate)}
              x2={scale.x(days.at(-1)?.untilMs ?? 0)}
              y2={scale.sumY(forecast.atEnd)}
              stroke="var(--mantine-color-berth-7)"
              strokeWidth={2}
              strokeDasharray="4 4"
            />
          )}
        </g>
        {days.map((day) => (
          <g
            key={day.number}
            role="button"
            aria-pressed={day.number === chosen}
            tabIndex={day.number === (chosen ?? 1) ? 0 : -1}
            data-day={day.number}
            className={classes.day}
            onClick={() => onDay(day.number === chosen ? undefined : day.number)}
            onKeyDown={(event) => onKey(event, day)}
          >
            <title>{labelOf(day)}</title>
            <rect
              x={scale.x(day.fromMs)}
              y={scale.dayY(scale.dayTop) - 8}
              width={scale.dayWidth}
              height={freePanel.bottom - scale.dayY(scale.dayTop) + 24}
              className={classes.hit}
            />
            {stackOf(day, shown, scale).map(({ key, y, height }) => (
              <rect
                key={key}
                x={scale.x(day.fromMs)}
                y={y}
                width={scale.dayWidth}
                height={height}
                fill={lineColors[shown.indexOf(key)] ?? REST}
                className={classes.part}
                onClick={(event) => {
                  if (key === '') return;
                  event.stopPropagation();
                  onLine(day.number, key);
                }}
              >
                <title>{`${key === '' ? billing.others : nameOf(key)}, ${dayName(day.fromMs)}`}</title>
              </rect>
            ))}
            {day.freeMs > 0 && (
              <rect
                x={scale.x(day.fromMs)}
                y={freePanel.top}
                width={scale.dayWidth}
                height={Math.max(2, scale.freeHeight(day.freeMs))}
                fill="url(#free-time)"
                stroke="var(--mantine-color-gray-6)"
                strokeWidth={0.5}
              />
            )}
            {(day.number % everyNth === 0 || day.number === 1) && (
              <text
                aria-hidden
                x={scale.x(day.fromMs) + scale.dayWidth / 2}
                y={HEIGHT - 12}
                fontSize={11}
                textAnchor="middle"
                fill="var(--mantine-color-dimmed)"
              >
                {day.number}
              </text>
            )}
          </g>
        ))}
      </svg>
      <Group gap="md" mb="xs" aria-hidden>
        {shown.map((key, at) => (
          <Legend key={key} color={lineColors[at] ?? REST} text={nameOf(key)} />
        ))}
        {days.some(({ amounts }) => [...amounts.keys()].some((key) => !shown.includes(key))) && (
          <Legend color={REST} text={billing.others} />
        )}
        {scale.farMarks.map(({ name, amount }) => (
          <Text key={`${name} ${amount}`} size="xs" c="dimmed">
            {billing.farMark(name, money(amount))}
          </Text>
        ))}
      </Group>
      <VisuallyHidden>
        <table>
          <caption>{billing.chart}</caption>
          <thead>
            <tr>
              <th scope="col">{billing.columns.day}</th>
              <th scope="col">{billing.columns.amount}</th>
              <th scope="col">{billing.columns.free}</th>
              <th scope="col">{billing.columns.sum}</th>
            </tr>
          </thead>
          <tbody>
            {days.map((day, at) => (
              <tr key={day.number}>
                <th scope="row">{dayName(day.fromMs)}</th>
                <td>{money(day.amount)}</td>
                <td>{duration(day.freeMs)}</td>
                <td>{money(scale.sums[at] ?? 0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </VisuallyHidden>
    </Box>
  );
}

const Legend = ({ color, text }: { color: string; text: string }) => (
  <Group gap={6} wrap="nowrap">
    <svg width={10} height={10}>
      <rect width={10} height={10} rx={2} fill={color} />
    </svg>
    <Text size="xs" c="dimmed" truncate maw={180}>
      {text}
    </Text>
  </Group>
);
