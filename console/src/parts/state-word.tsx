/** State of anything but an instance: by shape, word and colour. */
import { Group, Text, Tooltip } from '@mantine/core';
import {
  IconAlertTriangle,
  IconCircleCheck,
  IconCircleX,
  IconCloudDownload,
  IconLoader2,
  IconPlayerPause,
  type Icon,
} from '@tabler/icons-react';
import type { StateKind } from './state-kind.ts';

const marks: Readonly<Record<StateKind, { icon: Icon; color: string }>> = {
  good: { icon: IconCircleCheck, color: 'teal' },
  busy: { icon: IconLoader2, color: 'blue' },
  warns: { icon: IconAlertTriangle, color: 'orange' },
  bad: { icon: IconCircleX, color: 'red' },
  absent: { icon: IconCloudDownload, color: 'gray' },
  rests: { icon: IconPlayerPause, color: 'gray' },
};

interface StateWordProps {
  kind: StateKind;
  word: string;
  /** Why, on hover and focus. */
  why?: string;
}

export function StateWord({ kind, word, why = '' }: StateWordProps) {
  const { icon: Icon, color } = marks[kind];
  return (
    <Tooltip label={why} disabled={why === ''}>
      <Group gap={6} wrap="nowrap" tabIndex={why === '' ? undefined : 0} w="fit-content" maw="100%">
        <Icon
          size={14}
          aria-hidden
          color={`var(--mantine-color-${color}-${color === 'gray' ? 6 : 7})`}
          className={kind === 'busy' ? 'breathing' : undefined}
        />
        <Text span size="sm" truncate>
          {word}
        </Text>
      </Group>
    </Tooltip>
  );
}
