/** Which GPUs of a region an instance holds, for operators. */

export interface Device {
  id: string;
  model: string;
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
  gpus: readonly { deviceId: string | null; busyPercent: number | null }[];
}

export interface HeldGpu {
  model: string;
  holder: GpuHolder | null;
  /** The engine names this device. */
  isExact: boolean;
  busyPercent: number | null;
}

/**
 * Gives each holder its devices: those that the engine names, then free ones, of its model first.
 * A holder that is still starting has no sample, and some engines name no devices.
 */
export function assignGpus(devices: readonly Device[], holders: readonly GpuHolder[]): HeldGpu[] {
  const all = devices.map(({ id, model }) => ({
    id,
    held: { model, holder: null, isExact: false, busyPercent: null } as HeldGpu,
  }));
  const byId = new Map(all.map(({ id, held }) => [id, held]));
  const unnamed: { holder: GpuHolder; busyPercent: number | null }[] = [];
  for (const holder of holders)
    for (let nth = 0; nth < holder.count; nth++) {
      const { deviceId = null, busyPercent = null } = holder.gpus[nth] ?? {};
      const held = deviceId === null ? undefined : byId.get(deviceId);
      if (held?.holder === null) Object.assign(held, { holder, isExact: true, busyPercent });
      else unnamed.push({ holder, busyPercent });
    }
  for (const { holder, busyPercent } of unnamed) {
    const free = all.filter(({ held }) => held.holder === null);
    const device = free.find(({ held }) => held.model === holder.model) ?? free[0];
    if (device) Object.assign(device.held, { holder, busyPercent });
  }
  return all.map(({ held }) => held);
}
