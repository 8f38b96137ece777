/** Billing modes with their price for this type, and the off-peak clock. */
import { Group, NumberInput, Radio, Stack, Switch, Text, Title } from '@mantine/core';
import { chargeModes } from '../../../../src/contract/statuses.ts';
import { useFormat } from '../../app/format.ts';
import { useTexts } from '../../texts/provider.tsx';
import type { BlockProps } from './block.ts';
import { isByHour, priceOf } from './draft.ts';
import classes from './launch.module.css';
import { Note } from './note.tsx';
import { OffPeakClock } from './off-peak-clock.tsx';

export function PayBlock({ draft, change }: BlockProps) {
  const { launch } = useTexts();
  const { money } = useFormat();
  const { offer, mode, duration } = draft;
  const offPeak = offer.prices.find(({ chargeMode }) => chargeMode === 'tidePerHour')?.offPeak;
  const offered = chargeModes.filter((one) => priceOf(offer, one) !== undefined);
  return (
    <Stack gap="sm">
      <Title order={2}>{launch.pay}</Title>
      {draft.isOtherMode && <Note>{launch.otherMode(offer.typeName, launch.modes[mode].name)}</Note>}
      <Radio.Group
        aria-label={launch.pay}
        value={mode}
        onChange={(value) => change({ mode: chargeModes.find((one) => one === value) })}
      >
        <div className={classes.offers}>
          {offered.map((mode) => (
            <Radio.Card key={mode} value={mode} p="xs" className={classes.offer}>
              <Group wrap="nowrap" gap="xs" align="flex-start">
                <Radio.Indicator size="xs" mt={3} />
                <div className={classes.grow}>
                  <Text size="sm" fw={600}>
                    {launch.modes[mode].name}
                  </Text>
                  <Text size="sm">
                    {money(priceOf(offer, mode) ?? 0)}{' '}
                    <Text span size="xs" c="dimmed">
                      {launch.modes[mode].unit}
                    </Text>
                  </Text>
                </div>
              </Group>
            </Radio.Card>
          ))}
        </div>
      </Radio.Group>
      {mode === 'tidePerHour' && offPeak && <OffPeakClock offPeak={offPeak} />}
      {!isByHour(mode) && (
        <Group align="flex-end">
          <NumberInput
            label={launch.duration(launch.modes[mode].unit)}
            value={duration}
            min={1}
            max={1200}
            allowDecimal={false}
            w={140}
            onChange={(value) => change({ duration: Number(value) || 1 })}
          />
          <Switch
            label={launch.autoRenew}
            checked={draft.autoRenew}
            onChange={({ currentTarget }) => change({ autoRenew: currentTarget.checked })}
            pb={6}
          />
        </Group>
      )}
      {(mode === 'tidePerHour' || offer.isSpot) && (
        <Switch
          label={offer.isSpot ? launch.resumeSpot : launch.resume}
          checked={draft.resume}
          onChange={({ currentTarget }) => change({ resume: currentTarget.checked })}
        />
      )}
    </Stack>
  );
}
