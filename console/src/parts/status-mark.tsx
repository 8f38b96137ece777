/** Status by shape, word and colour. */
import {
  IconArchive,
  IconCircleFilled,
  IconCircleX,
  IconClockHour4,
  IconLoader2,
  IconPlayerStopFilled,
  IconTrash,
  type Icon,
} from '@tabler/icons-react';
import type { InstanceObject } from '../../../src/contract/compute/instance.ts';
import type { Texts } from '../texts/en/index.ts';
import { useTexts } from '../texts/provider.tsx';
import classes from './status-mark.module.css';

interface Mark {
  icon: Icon;
  color: string;
  word: string;
  isMoving: boolean;
}

const waits = (reason: string): boolean => reason === 'NoCapacity' || reason === 'OffPeakWait';
const phaseWords = {
  Stopping: 'stopping',
  Archiving: 'archiving',
  Cleaning: 'cleaning',
  RemovingDisks: 'cleaning',
} as const;
const isPhaseWord = (phase: string): phase is keyof typeof phaseWords => phase in phaseWords;

export function markOf({ instanceRuntimeInfo: runtime }: InstanceObject, { statuses }: Texts): Mark {
  const { status, phase, diagnosisReason, healthy } = runtime;
  const word = statuses.instance[status];
  if (isPhaseWord(phase))
    return { icon: IconLoader2, color: 'gray', word: statuses[phaseWords[phase]], isMoving: true };
  if (waits(diagnosisReason)) return { icon: IconClockHour4, color: 'yellow', word: statuses.waiting, isMoving: false };
  switch (status) {
    case 'Running':
      return { icon: IconCircleFilled, color: healthy ? 'teal' : 'orange', word, isMoving: false };
    case 'Stopped':
      return { icon: IconPlayerStopFilled, color: 'gray', word, isMoving: false };
    case 'Archived':
      return { icon: IconArchive, color: 'gray', word, isMoving: false };
    case 'Released':
      return { icon: IconTrash, color: 'gray', word, isMoving: false };
    case 'StartingFailed':
    case 'InitializationFailed':
      return { icon: IconCircleX, color: 'red', word, isMoving: false };
    case 'Starting':
    case 'Initializing':
    case 'PullingImage':
    case 'Restarting':
      return { icon: IconLoader2, color: 'blue', word, isMoving: true };
  }
}

export function StatusMark({ instance }: { instance: InstanceObject }) {
  const { icon: Icon, color, word, isMoving } = markOf(instance, useTexts());
  return (
    <span className={classes.mark}>
      <Icon
        size={13}
        aria-hidden
        color={`var(--mantine-color-${color}-${color === 'gray' ? 6 : 7})`}
        className={isMoving ? 'breathing' : undefined}
      />
      <span className={classes.word}>{word}</span>
    </span>
  );
}
