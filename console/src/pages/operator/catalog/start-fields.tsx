/** When new prices begin: tomorrow, now, or at a later time. */
import { Group, NativeSelect, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useFormat } from '../../../app/format.ts';
import { useTexts } from '../../../texts/provider.tsx';
import { startModes, startOf, type StartMode } from './price-plan.ts';

export interface Start {
  mode: StartMode;
  /** Of an `input`, in the time zone of the browser. */
  later: string;
  /** `undefined`: at once. Null: the time is missing or over. */
  fromUnixMs: number | undefined | null;
  setMode: (mode: StartMode) => void;
  setLater: (later: string) => void;
}

export function useStart(): Start {
  const [mode, setMode] = useState<StartMode>('tomorrow');
  const [later, setLater] = useState('');
  const [openedAtMs] = useState(Date.now);
  return { mode, later, fromUnixMs: startOf(mode, later, openedAtMs), setMode, setLater };
}

export function StartFields({ start: { mode, later, fromUnixMs, setMode, setLater } }: { start: Start }) {
  const { catalog } = useTexts();
  const { dateTime } = useFormat();
  return (
    <Group gap="xs" align="flex-end">
      <NativeSelect
        label={catalog.from}
        value={mode}
        onChange={({ currentTarget }) => setMode(startModes.find((one) => one === currentTarget.value) ?? 'now')}
        data={startModes.map((value) => ({ value, label: catalog.startModes[value] }))}
      />
      {mode === 'later' && (
        <TextInput
          type="datetime-local"
          label={catalog.fromTime}
          value={later}
          onChange={({ currentTarget }) => setLater(currentTarget.value)}
        />
      )}
      {mode === 'tomorrow' && typeof fromUnixMs === 'number' && (
        <Text size="xs" c="dimmed" pb={8}>
          {dateTime(fromUnixMs)}
        </Text>
      )}
    </Group>
  );
}
