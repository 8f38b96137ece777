/** Bytes of volumes as the engine counts them: one reading walks the files of all volumes. */
import { z } from 'zod';
import type { DockerClient } from '../../docker/docker-client.ts';

const answer = z.object({
  Volumes: z.array(z.object({ Name: z.string(), UsageData: z.object({ Size: z.number() }).nullish() })).nullish(),
});

export interface VolumeSizes {
  /** Null when the volume is absent. `uncounted`: the engine failed to read a file of it. */
  of(name: string, signal: AbortSignal): Promise<number | 'uncounted' | null>;
}

export function makeVolumeSizes(client: DockerClient, cache: { ageMs: number; elapsed: () => number }): VolumeSizes {
  let last: { atMs: number; sizes: Promise<Map<string, number | 'uncounted'>> } | null = null;

  async function read(signal: AbortSignal): Promise<Map<string, number | 'uncounted'>> {
    // Docker 20.10 ignores the type, and counts all that it holds.
    const { Volumes } = answer.parse(await client.get('/system/df?type=volume', signal));
    return new Map(
      (Volumes ?? []).flatMap(({ Name, UsageData }) =>
        UsageData ? [[Name, UsageData.Size < 0 ? 'uncounted' : UsageData.Size] as const] : [],
      ),
    );
  }

  return {
    async of(name, signal) {
      if (last === null || cache.elapsed() - last.atMs >= cache.ageMs) {
        const reading = { atMs: cache.elapsed(), sizes: read(signal) };
        last = reading;
        reading.sizes.catch(() => {
          if (last === reading) last = null;
        });
      }
      return (await last.sizes).get(name) ?? null;
    },
  };
}
