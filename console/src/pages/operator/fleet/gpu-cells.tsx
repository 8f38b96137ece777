/** Each GPU as a cell: who holds it, how busy and well it is. */
import { Text, Tooltip, UnstyledButton, VisuallyHidden } from '@mantine/core';
import { useTexts } from '../../../texts/provider.tsx';
import { useFormat } from '../../../app/format.ts';
import classes from './fleet.module.css';
import type { FleetGpu } from './query.ts';

interface GpuCellsProps {
  gpus: readonly FleetGpu[];
  onOpen: (gpu: FleetGpu) => void;
}

export function GpuCells({ gpus, onOpen }: GpuCellsProps) {
  const { fleet } = useTexts();
  return (
    <>
      <ul className={classes.gpus} aria-label={fleet.gpus}>
        {gpus.map((gpu) => (
          <li key={gpu.index}>
            <Cell gpu={gpu} onOpen={() => onOpen(gpu)} />
          </li>
        ))}
      </ul>
      {gpus.some(({ holder, holderIsExact }) => holder !== null && !holderIsExact) && (
        <Text size="xs" c="dimmed">
          {fleet.notExact}
        </Text>
      )}
    </>
  );
}

function Cell({ gpu, onOpen }: { gpu: FleetGpu; onOpen: () => void }) {
  const { index, model, holder, busyPercent, quarantine } = gpu;
  const { fleet } = useTexts();
  const { percent } = useFormat();
  const load = busyPercent === null ? null : percent(busyPercent / 100);
  const label = [
    `${index}: ${model === '' ? 'GPU' : model}`,
    holder === null
      ? quarantine.length === 0
        ? fleet.freeGpu
        : fleet.noHolder
      : fleet.heldBy(holder.name, holder.username),
    ...(load === null ? [] : [fleet.busy(load)]),
    ...(quarantine.length === 0 ? [] : [fleet.quarantine(quarantine.join(', '))]),
  ].join(' · ');
  return (
    <Tooltip label={label}>
      <UnstyledButton
        className={classes.gpu}
        data-held={holder !== null || undefined}
        data-sick={quarantine.length > 0 || undefined}
        aria-haspopup="dialog"
        onClick={onOpen}
      >
        {/* The load as a column that fills the cell from below. */}
        <svg
          width="100%"
          height="100%"
          aria-hidden
          className={classes.load}
          preserveAspectRatio="none"
          viewBox="0 0 1 100"
        >
          <rect x={0} width={1} y={100 - (busyPercent ?? 0)} height={busyPercent ?? 0} fill="currentColor" />
        </svg>
        <Text span size="xs" fw={holder === null ? 400 : 600} truncate className={classes.name}>
          {holder?.username ?? quarantine[0] ?? fleet.freeGpu}
        </Text>
        <Text span size="xs" truncate className={classes.name}>
          {holder === null ? model : (load ?? holder.name)}
        </Text>
        <VisuallyHidden>{label}</VisuallyHidden>
      </UnstyledButton>
    </Tooltip>
  );
}
