/** Automatic stops: at a time, after the longest run, and when nothing uses the instance. */
import { Alert, Checkbox, Group, NumberInput, Switch, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ruleNames, type RuleName } from '../../../../src/contract/statuses.ts';
import { api } from '../../app/api.ts';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import { endsQuery, type InstanceView, type StopPolicy } from './queries.ts';
import { fieldOf, hoursOf, minutesOf, timeOf } from './schedule.ts';
import { SaveForm } from './save-form.tsx';
import { SettingsCard } from './settings-card.tsx';
import { useChange } from './use-change.ts';

export function ScheduleForm({ view: { instance } }: { view: InstanceView }) {
  const { settings } = useTexts().instance;
  const ends = useQuery(endsQuery(idOf(instance)));
  return (
    <SettingsCard title={settings.schedule} hint={settings.scheduleHint}>
      {ends.isPending && <Loading h={220} label={settings.schedule} />}
      {ends.isError && <Trouble error={ends.error} onRetry={() => void ends.refetch()} />}
      {ends.data && <Fields key={JSON.stringify(ends.data)} ends={ends.data} />}
    </SettingsCard>
  );
}

const FIRST_IDLE_MINUTES = 60;

function Fields({ ends }: { ends: StopPolicy }) {
  const { instance } = useTexts();
  const { settings, idle } = instance;
  const { instanceId } = ends;
  const [stopAt, setStopAt] = useState(fieldOf(ends.stopAtUnixMs));
  const [hours, setHours] = useState<number | string>(hoursOf(ends.maxRunMinutes));
  const [isIdle, setIdle] = useState(ends.idleStop !== null);
  const [idleMinutes, setIdleMinutes] = useState<number | string>(ends.idleStop?.afterMinutes ?? FIRST_IDLE_MINUTES);
  const [ignored, setIgnored] = useState<readonly RuleName[]>(ends.idleStop?.ignore ?? []);
  const stopAtMs = timeOf(stopAt);
  const isPast = stopAtMs !== null && stopAtMs < Date.now() && stopAt !== fieldOf(ends.stopAtUnixMs);
  const wasIgnored = ends.idleStop?.ignore ?? [];
  const isSame =
    stopAt === fieldOf(ends.stopAtUnixMs) &&
    minutesOf(hours) === ends.maxRunMinutes &&
    isIdle === (ends.idleStop !== null) &&
    (!isIdle || (Number(idleMinutes) === ends.idleStop?.afterMinutes && wasIgnored.join() === ignored.join()));
  const isRefused = isPast || ignored.length === ruleNames.length;
  const save = useChange(() =>
    api.ends({
      instanceId,
      ...(stopAt === fieldOf(ends.stopAtUnixMs) ? {} : { stopAtUnixMs: stopAtMs }),
      maxRunMinutes: minutesOf(hours),
      idleStop: isIdle
        ? {
            afterMinutes: Math.max(1, Math.round(Number(idleMinutes)) || FIRST_IDLE_MINUTES),
            ignore: [...ignored],
            ...(ends.idleStop ? { cpuPercent: ends.idleStop.cpuPercent, gpuPercent: ends.idleStop.gpuPercent } : {}),
          }
        : null,
    }),
  );
  return (
    <SaveForm save={save} isIdle={isSame || isRefused}>
      <TextInput
        size="xs"
        type="datetime-local"
        label={settings.stopAt}
        description={settings.stopAtHint}
        value={stopAt}
        error={isPast ? settings.inThePast : undefined}
        onChange={({ currentTarget }) => setStopAt(currentTarget.value)}
      />
      <NumberInput
        size="xs"
        w={220}
        label={settings.longestRun}
        description={settings.longestRunHint}
        min={0}
        step={1}
        decimalScale={2}
        suffix={settings.hoursSuffix}
        value={hours}
        onChange={setHours}
      />
      <Switch
        label={settings.idleStop}
        description={settings.idleStopHint}
        checked={isIdle}
        onChange={({ currentTarget }) => setIdle(currentTarget.checked)}
      />
      {isIdle && (
        <>
          <NumberInput
            size="xs"
            w={220}
            label={settings.idleMinutes}
            min={1}
            allowDecimal={false}
            suffix={settings.minutesSuffix}
            value={idleMinutes}
            onChange={setIdleMinutes}
          />
          <Checkbox.Group
            label={settings.counts}
            value={ruleNames.filter((name) => !ignored.includes(name))}
            onChange={(counting) => setIgnored(ruleNames.filter((name) => !counting.includes(name)))}
          >
            <Group gap="sm" mt={4}>
              {ruleNames.map((name) => (
                <Checkbox key={name} size="xs" value={name} label={idle.signals[name]} />
              ))}
            </Group>
          </Checkbox.Group>
          {ignored.length === ruleNames.length && (
            <Alert color="yellow" variant="light" py={4}>
              <Text size="xs">{settings.oneCounts}</Text>
            </Alert>
          )}
        </>
      )}
    </SaveForm>
  );
}
