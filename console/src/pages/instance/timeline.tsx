/** Stages of a start with their durations, and the bytes of a pull as they come. */
import { Group, Progress, Stack, Text } from '@mantine/core';
import { IconCircleCheck, IconCircleDashed, IconCircleX, IconLoader2 } from '@tabler/icons-react';
import { useFormat } from '../../app/format.ts';
import { useNow } from '../../app/now.ts';
import { useTexts } from '../../texts/provider.tsx';
import classes from './instance.module.css';
import type { Stage } from './queries.ts';

type StageState = 'done' | 'now' | 'failed' | 'coming';

const marks = {
  done: { icon: IconCircleCheck, color: 'teal' },
  now: { icon: IconLoader2, color: 'blue' },
  failed: { icon: IconCircleX, color: 'red' },
  coming: { icon: IconCircleDashed, color: 'gray' },
} as const;

interface TimelineProps {
  stages: readonly Stage[];
  /** Of the operation, after its last stage. */
  hasFailed?: boolean;
  /** Stages of a start that have not begun. */
  coming?: readonly Stage['name'][];
}

export function Timeline({ stages, hasFailed = false, coming = [] }: TimelineProps) {
  const { instance } = useTexts();
  const last = stages.findLast(({ name }) => name !== 'InitScript');
  const stateOf = (stage: Stage): StageState => {
    if (stage.endedAtUnixMs === null) return 'now';
    return hasFailed && stage === last ? 'failed' : 'done';
  };
  return (
    <ol className={classes.timeline} aria-label={instance.timeline}>
      {stages.map((stage) => (
        <StageLine key={stage.name} stage={stage} state={stateOf(stage)} />
      ))}
      {coming.map((name) => (
        <li key={name} className={classes.stage}>
          <Mark state="coming" />
          <Text size="sm" c="dimmed">
            {instance.stages[name]}
          </Text>
        </li>
      ))}
    </ol>
  );
}

function Mark({ state }: { state: StageState }) {
  const { instance } = useTexts();
  const { icon: Icon, color } = marks[state];
  return (
    <Icon
      size={18}
      color={`var(--mantine-color-${color}-${color === 'gray' ? 5 : 7})`}
      className={state === 'now' ? 'breathing' : undefined}
      role="img"
      aria-label={instance.stageStates[state]}
    />
  );
}

function StageLine({ stage, state }: { stage: Stage; state: StageState }) {
  const { instance } = useTexts();
  const { duration } = useFormat();
  const nowMs = useNow();
  const { startedAtUnixMs, endedAtUnixMs, done, total, unit, text } = stage;
  const lengthMs = (endedAtUnixMs ?? Math.max(nowMs, startedAtUnixMs)) - startedAtUnixMs;
  const measured = unit !== '' && (done > 0 || total > 0);
  return (
    <li className={classes.stage} aria-current={state === 'now' ? 'step' : undefined}>
      <Mark state={state} />
      <Stack gap={2} flex={1} miw={0}>
        <Group justify="space-between" gap="xs" wrap="nowrap">
          <Text size="sm" fw={state === 'now' ? 600 : undefined}>
            {instance.stages[stage.name]}
          </Text>
          <Text size="sm" c="dimmed">
            {lengthMs < 1_000 ? instance.underASecond : duration(lengthMs)}
          </Text>
        </Group>
        {measured && state === 'now' && <Amount stage={stage} />}
        {state !== 'done' && text !== '' && (
          <Text size="xs" c="dimmed">
            {text}
          </Text>
        )}
      </Stack>
    </li>
  );
}

function Amount({ stage: { name, done, total, unit } }: { stage: Stage }) {
  const { instance } = useTexts();
  const { bytes } = useFormat();
  const [now, all] = unit === 'bytes' ? [bytes(done), bytes(total)] : [String(done), String(total)];
  const words = total > 0 ? instance.amountOf(now, all) : now;
  return (
    <Group gap="xs" wrap="nowrap">
      <Progress
        flex={1}
        size="sm"
        value={total > 0 ? Math.min(100, (done / total) * 100) : 100}
        animated={total === 0}
        aria-label={instance.stages[name]}
      />
      <Text size="xs" c="dimmed">
        {words}
      </Text>
    </Group>
  );
}
