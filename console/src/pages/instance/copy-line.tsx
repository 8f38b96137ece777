/** A line or more to copy, whole. */
import { Group, Text } from '@mantine/core';
import { CopyButton } from '../../parts/copy-button.tsx';
import classes from './instance.module.css';

export function CopyLine({ label, value }: { label: string; value: string }) {
  return (
    <div>
      <Text size="sm" mb={2}>
        {label}
      </Text>
      <Group gap={4} wrap="nowrap" align="flex-start">
        <code className={classes.code} tabIndex={0} role="group" aria-label={label}>
          {value}
        </code>
        <CopyButton value={value} label={label} />
      </Group>
    </div>
  );
}
