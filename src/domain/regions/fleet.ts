/** Which GPUs of a region an instance holds, for operators. */

import type { CardFigures } from './card-health.ts';

export interface Device {
  id: string;
  model: string;
  figures?: CardFigures | undefined;
}

export interface GpuHolder {
  instanceId: string;
  name: string;
  ownerId: string;
  ownerName: string;
  /** GPUs that the instance holds. */
  count: number;
  /** Model of its type; empty where the engine has one kind. */
  model: string;
  /** An entry for each GPU of the last sample; empty without one. */
  gpus: readonly (CardFigures & { deviceId?: string | undefined })[];
}

export interface HeldGpu {
  model: string;
  holder: GpuHolder | null;
  /** The engine names this device. */
  isExact: boolean;
  /** Last sample of the holder, else of the probe. */
  figures: CardFigures | null;
}

/**
 * Gives each holder its devices: those that the engine names, then free ones, of its model first.
 * A holder that is still starting has no sample, and some engines name no devices.
 */
export function assignGpus(devices: readonly Device[], holders: readonly GpuHolder[]): HeldGpu[] {
  const all = devices.map(({ id, model, figures = null }) => ({
    id,
    held: { model, holder: null, isExact: false, figures } as HeldGpu,
  }));
  const byId = new Map(all.map(({ id, held }) => [id, held]));
  const unnamed: { holder: GpuHolder; sample: CardFigures | null }[] = [];
  for (const holder of holders)
    for (let nth = 0; nth < holder.count; nth++) {
      const sample = holder.gpus[nth] ?? null;
      const held = sample?.deviceId === undefined ? undefined : byId.get(sample.deviceId);
      if (held?.holder === null) Object.assign(held, { holder, isExact: true, figures: sample });
      else unnamed.push({ holder, sample });
    }
  for (const { holder, sample } of unnamed) {
    const free = all.filter(({ held }) => held.holder === null);
    const device = free.find(({ held }) => held.model === holder.model) ?? free[0];
    if (device) Object.assign(device.held, { holder, figures: device.held.figures ?? sample });
  }
  return all.map(({ held }) => held);
}
