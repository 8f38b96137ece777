/** Ring of 24 hours with the off-peak windows of the region and the time there now. */
import { Group, Text } from '@mantine/core';
import { useNow } from '../../app/now.ts';
import { useTexts } from '../../texts/provider.tsx';
import type { Offer } from './draft.ts';
import { arcOf, clockTimeOf, spansOfDay } from './off-peak-ring.ts';

const SIZE = 96;
const ring = { centre: SIZE / 2, radius: 36 };
const MINUTE_MS = 60_000;
const HOURS = [0, 6, 12, 18];

export function OffPeakClock({ offPeak }: { offPeak: NonNullable<Offer['prices'][number]['offPeak']> }) {
  const { launch } = useTexts();
  const nowMs = useNow(MINUTE_MS);
  const today = clockTimeOf(nowMs, offPeak.timeZone);
  const { minutes } = today;
  const clock = `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
  const hand = (minutes / (24 * 60)) * 360;
  const words = offPeak.now ? launch.offPeakNow : launch.offPeakLater;
  return (
    <Group gap="sm" wrap="nowrap">
      <svg
        width={SIZE}
        height={SIZE}
        viewBox={`0 0 ${SIZE} ${SIZE}`}
        role="img"
        aria-label={`${clock} ${offPeak.timeZone}. ${words}`}
      >
        <circle
          cx={ring.centre}
          cy={ring.centre}
          r={ring.radius}
          fill="none"
          stroke="var(--mantine-color-default-border)"
          strokeWidth={8}
        />
        {spansOfDay(offPeak, today).map((span) => (
          <path
            key={span.join('-')}
            d={arcOf(span, ring)}
            fill="none"
            stroke="var(--mantine-color-berth-6)"
            strokeWidth={8}
          />
        ))}
        {HOURS.map((hour) => (
          <text
            key={hour}
            x={ring.centre + 22 * Math.sin((hour / 24) * 2 * Math.PI)}
            y={ring.centre - 22 * Math.cos((hour / 24) * 2 * Math.PI)}
            fontSize={9}
            textAnchor="middle"
            dominantBaseline="central"
            fill="var(--mantine-color-dimmed)"
          >
            {hour}
          </text>
        ))}
        <line
          x1={ring.centre}
          y1={ring.centre - ring.radius - 6}
          x2={ring.centre}
          y2={ring.centre - ring.radius + 6}
          stroke="var(--mantine-color-text)"
          strokeWidth={2}
          transform={`rotate(${hand} ${ring.centre} ${ring.centre})`}
        />
      </svg>
      <div>
        <Text size="sm">{words}</Text>
        <Text size="xs" c="dimmed">
          {clock} · {offPeak.timeZone}
        </Text>
      </div>
    </Group>
  );
}
