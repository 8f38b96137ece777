/** A line of the last hours, without axes; gaps where nothing was measured. */
import { Text } from '@mantine/core';

const WIDTH = 96;
const HEIGHT = 22;

interface SparklineProps {
  values: readonly (number | null)[];
  /** Value at the top. */
  most: number;
  label: string;
}

function pathOf(values: readonly (number | null)[], most: number): string {
  const stepX = WIDTH / Math.max(1, values.length - 1);
  let isDrawing = false;
  return values
    .map((value, at) => {
      if (value === null) {
        isDrawing = false;
        return '';
      }
      const y = HEIGHT - 1 - (Math.min(value, most) / (most || 1)) * (HEIGHT - 2);
      const command = `${isDrawing ? 'L' : 'M'}${(at * stepX).toFixed(1)} ${y.toFixed(1)}`;
      isDrawing = true;
      return command;
    })
    .join('');
}

export function Sparkline({ values, most, label }: SparklineProps) {
  if (values.every((value) => value === null))
    return (
      <Text span size="xs" c="dimmed" aria-label={label}>
        –
      </Text>
    );
  return (
    <svg width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <path d={pathOf(values, most)} fill="none" stroke="var(--mantine-color-berth-6)" strokeWidth="1.4" />
    </svg>
  );
}
