/** Weekly windows of the off-peak price, by the clock of a time zone. */
import { ActionIcon, Autocomplete, Button, Chip, Group, Paper, Stack, Text, TextInput } from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';
import { weekdays } from '../../../../../src/contract/statuses.ts';
import { api } from '../../../app/api.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { CATALOG_STALE, type ManagedRegion } from './queries.ts';

type Windows = NonNullable<ManagedRegion['offPeak']>['windows'];

const zones = Intl.supportedValuesOf('timeZone');
const everyNight: Windows[number] = { days: [...weekdays], start: '22:00', end: '08:00' };

export function OffPeakModal({ region, onClose }: { region: ManagedRegion; onClose: () => void }) {
  const { catalog, common } = useTexts();
  const [timeZone, setTimeZone] = useState(
    region.offPeak?.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
  );
  const [windows, setWindows] = useState<Windows>(region.offPeak?.windows ?? []);
  const set = (at: number, over: Partial<Windows[number]>): void =>
    setWindows(windows.map((one, index) => (index === at ? { ...one, ...over } : one)));
  return (
    <ActModal
      title={catalog.offPeakTitle(region.name)}
      label={common.save}
      size="lg"
      isReady={timeZone !== '' && windows.every(({ days }) => days.length > 0)}
      stale={CATALOG_STALE}
      onClose={onClose}
      act={() =>
        api.updateRegion({
          regionId: region.regionId,
          version: region.version,
          offPeak: windows.length === 0 ? null : { timeZone, windows },
        })
      }
    >
      <Autocomplete label={catalog.timeZone} data={zones} limit={20} value={timeZone} onChange={setTimeZone} />
      <Stack gap="xs">
        {windows.map((window, index) => (
          <Paper key={index} withBorder p="xs">
            <Group justify="space-between" wrap="nowrap" align="flex-start">
              <Chip.Group
                multiple
                value={window.days}
                onChange={(days) => set(index, { days: weekdays.filter((day) => days.includes(day)) })}
              >
                <Group gap={4}>
                  {weekdays.map((day) => (
                    <Chip key={day} value={day} size="xs">
                      {catalog.weekdays[day]}
                    </Chip>
                  ))}
                </Group>
              </Chip.Group>
              <ActionIcon
                aria-label={catalog.removeWindow}
                onClick={() => setWindows(windows.filter((_, other) => other !== index))}
              >
                <IconTrash size={14} />
              </ActionIcon>
            </Group>
            <Group gap="xs" mt={6}>
              <TextInput
                size="xs"
                w={100}
                label={catalog.start}
                placeholder="22:00"
                value={window.start}
                onChange={({ currentTarget }) => set(index, { start: currentTarget.value })}
              />
              <TextInput
                size="xs"
                w={100}
                label={catalog.end}
                placeholder="08:00"
                value={window.end}
                onChange={({ currentTarget }) => set(index, { end: currentTarget.value })}
              />
              <Text size="xs" c="dimmed" mt={20}>
                {window.end < window.start ? catalog.nextDay : ''}
              </Text>
            </Group>
          </Paper>
        ))}
        <Group>
          <Button
            variant="default"
            leftSection={<IconPlus size={13} />}
            onClick={() => setWindows([...windows, everyNight])}
          >
            {catalog.addWindow}
          </Button>
        </Group>
      </Stack>
      <Text size="xs" c="dimmed">
        {windows.length === 0 ? catalog.noOffPeak : catalog.offPeakHint}
      </Text>
    </ActModal>
  );
}
