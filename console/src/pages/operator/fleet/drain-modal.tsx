/** Closes a region for maintenance, or ends that. */
import { NumberInput, Switch, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { FleetRegion } from './query.ts';

const STALE = ['fleet', 'regions', 'catalog'];

export function DrainModal({ region, onClose }: { region: FleetRegion; onClose: () => void }) {
  const { fleet, operator } = useTexts();
  const { regionId, regionName, drain, holding } = region;
  const [reason, setReason] = useState('');
  const [stops, setStops] = useState(false);
  const [minutes, setMinutes] = useState<number | string>(60);
  const isEnd = drain !== null;
  return (
    <ActModal
      title={isEnd ? fleet.endDrainTitle(regionName) : fleet.drainTitle(regionName)}
      label={isEnd ? fleet.endDrain : fleet.drain}
      isDestructive={!isEnd && stops}
      isReady={isEnd || (reason.trim() !== '' && (!stops || minutes !== ''))}
      stale={STALE}
      onClose={onClose}
      act={() =>
        api.drainRegion({
          regionId,
          drain: !isEnd,
          reason: isEnd ? drain.reason : reason.trim(),
          ...(!isEnd && stops ? { stopRunningAfterMinutes: Number(minutes) } : {}),
        })
      }
    >
      <Text size="sm">{isEnd ? fleet.endDrainHint : fleet.drainHint(holding)}</Text>
      {!isEnd && (
        <>
          <TextInput
            data-autofocus
            label={operator.reason}
            description={fleet.drainReason}
            maxLength={500}
            value={reason}
            onChange={({ currentTarget }) => setReason(currentTarget.value)}
          />
          <Switch
            label={fleet.stopRunning}
            checked={stops}
            onChange={({ currentTarget }) => setStops(currentTarget.checked)}
          />
          {stops && (
            <NumberInput
              label={fleet.afterMinutes}
              min={0}
              max={10_080}
              allowDecimal={false}
              value={minutes}
              onChange={setMinutes}
            />
          )}
        </>
      )}
    </ActModal>
  );
}
