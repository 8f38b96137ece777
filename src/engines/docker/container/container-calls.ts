import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerInfo, ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { isContainerGone, sentenceOf, statusOf } from '../../../docker/faults.ts';
import { refPath } from '../image/refs.ts';

const POLL_MS = 50;

export async function inspectContainer(
  { docker, call }: DockerClient,
  nameOrId: string,
  signal: AbortSignal,
): Promise<ContainerInspectInfo | null> {
  try {
    return await call(signal, (abortSignal) => docker.getContainer(nameOrId).inspect({ abortSignal }));
  } catch (error) {
    if (isContainerGone(error)) return null;
    throw error;
  }
}

const imageAnswer = z.object({ Config: z.object({ Env: z.array(z.string()).nullish() }).nullish() });

export async function envOfImage(client: DockerClient, ref: string, signal: AbortSignal): Promise<readonly string[]> {
  const { Config } = imageAnswer.parse(await client.get(`/images/${refPath(ref)}/json`, signal));
  return Config?.Env ?? [];
}

/** Lists containers with all of these labels, in any state. */
export const listContainers = (
  { docker, call }: DockerClient,
  label: string[],
  signal: AbortSignal,
): Promise<ContainerInfo[]> =>
  call(signal, (abortSignal) => docker.listContainers({ all: true, filters: { label }, abortSignal }));

export async function isSameRun(
  client: DockerClient,
  run: Pick<ContainerInspectInfo, 'Id' | 'State'>,
  signal: AbortSignal,
): Promise<boolean> {
  const now = await inspectContainer(client, run.Id, signal);
  return now !== null && now.State.Running && now.State.StartedAt === run.State.StartedAt;
}

/** Waits for a removal by another caller. Absent is success. */
export async function removeContainer(client: DockerClient, id: string, signal: AbortSignal): Promise<void> {
  const request = { force: true, v: true, abortSignal: signal };
  for (;;) {
    try {
      await client.call(signal, () => client.docker.getContainer(id).remove(request));
      return;
    } catch (error) {
      if (isContainerGone(error)) return;
      if (statusOf(error) !== 409 || !/already in progress/i.test(sentenceOf(error))) throw error;
    }
    // Polled: no wait for a removal exists in all versions of the engine.
    await pollPause(client, signal);
  }
}

export const pollPause = (client: DockerClient, signal: AbortSignal): Promise<void> =>
  client.call(signal, (abortSignal) => sleep(POLL_MS, undefined, { signal: abortSignal }));
