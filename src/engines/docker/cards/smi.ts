/** `nvidia-smi` of the engine's host: beside Berth, else in a helper container with all cards. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { z } from 'zod';
import { runInHelper, type EnsureImage } from '../../../docker/helper-container.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { errorCode, reasonText } from '../../../domain/kernel/unknown-error.ts';
import type { EngineLog } from '../../engine-log.ts';
import { labelsOf } from '../../labels.ts';

export interface SmiProcess {
  stdout: Readable;
  stderr: Readable;
  /** Exit code; rejects when it is not known. */
  ended: Promise<number | null>;
  kill(): void;
}

/** Rejects when no such program can be started; an abort kills the process. */
export type StartSmi = (args: readonly string[], signal: AbortSignal) => Promise<SmiProcess>;

export const smiHere =
  (program = 'nvidia-smi'): StartSmi =>
  async (args, signal) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], signal, killSignal: 'SIGKILL' });
    const { stdout, stderr } = child;
    const ended = once(child, 'close').then(([code]: (number | null)[]) => code ?? null);
    ended.catch(() => {});
    await once(child, 'spawn');
    return { stdout, stderr, ended, kill: () => void child.kill('SIGKILL') };
  };

/** Tries `there` where `here` is null, or has no such program. */
export const smiHereOrThere =
  (here: StartSmi | null, there: StartSmi | null): StartSmi =>
  async (args, signal) => {
    try {
      if (here !== null) return await here(args, signal);
    } catch (error) {
      if (there === null || errorCode(error) !== 'ENOENT') throw error;
    }
    if (there === null) throw new Error('no image is known for a helper container');
    return there(args, signal);
  };

const IDLE_S = 60;

/** Ends with its input, so also when Berth is gone. The driver's files may be in its own folder. */
const UNTIL_INPUT_ENDS = `
exec 3<&0
PATH=$PATH:/usr/bin:/usr/local/nvidia/bin nvidia-smi "$@" 3<&- &
pid=$!
(cat <&3; kill -KILL "$pid") >/dev/null 2>&1 &
exec 3<&-
wait "$pid"
`;

const infoAnswer = z.object({ DiscoveredDevices: z.array(z.object({ ID: z.string() })).nullish() });
export const CDI_KIND = 'nvidia.com/gpu=';
const ALL = `${CDI_KIND}all`;

export interface SmiThere {
  client: DockerClient;
  installation: string;
  /** Image with glibc, which the driver's `nvidia-smi` needs. */
  image: string;
  ensureImage: EnsureImage;
  log: Pick<EngineLog, 'warn'>;
}

const AGAIN_MS = 1_800_000;

/** A probe does not wait for an image of a gigabyte. */
function inBackground({ ensureImage, log }: Pick<SmiThere, 'ensureImage' | 'log'>): EnsureImage {
  let triedMs = -Infinity;
  return async (ref) => {
    if (performance.now() - triedMs > AGAIN_MS) {
      triedMs = performance.now();
      const warn = (error: unknown): void => log.warn({ ref, reason: reasonText(error) }, 'cards are not read');
      ensureImage(ref, AbortSignal.timeout(AGAIN_MS)).catch(warn);
    }
    throw new Error(`the image ${ref} is on its way to the engine`);
  };
}

export function smiThere({ client, installation, image, ...rest }: SmiThere): StartSmi {
  const ensureImage = inBackground(rest);
  return async (args, signal) => {
    const { DiscoveredDevices } = infoAnswer.parse(await client.get('/info', signal));
    const names = (DiscoveredDevices ?? []).flatMap(({ ID }) => (ID.startsWith(CDI_KIND) ? ID : [])).toSorted();
    const DeviceIDs = names.includes(ALL) ? [ALL] : names;
    const devices =
      names.length > 0
        ? { Driver: 'cdi', DeviceIDs }
        : { Driver: 'nvidia', Count: -1, Capabilities: [['gpu', 'utility']] };
    // Others for other cards: a container keeps those that it was created with.
    const hash = createHash('sha256').update(names.join()).digest('hex').slice(0, 8);
    const helper = {
      name: `berth-cards-${installation.slice(0, 8)}-${hash}`,
      image,
      labels: labelsOf(installation, { kind: 'helper', id: '', ownerId: '', generation: 0 }),
      idleS: IDLE_S,
      user: '0',
      capabilities: [],
      network: 'none',
      volumes: {},
      devices,
    } as const;
    const command = await runInHelper(client, helper, {
      command: ['sh', '-c', UNTIL_INPUT_ENDS, 'sh', ...args],
      ensureImage,
      signal,
    });
    const kill = (): void => command.close();
    signal.addEventListener('abort', kill);
    void command.exited.catch(() => {}).then(() => signal.removeEventListener('abort', kill));
    const { stdout, stderr, exited } = command;
    return { stdout, stderr, ended: exited, kill };
  };
}
