/** The Pod that serves the files of one claim: its start, its commands and its end. */
import { withDeadline } from '../../async/abort.ts';
import type { DiskId } from '../../domain/storage/disk.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Pod } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import type { PodExec } from '../../kubernetes/pod-exec.ts';
import { StorageFault } from '../contract.ts';
import { discardUploads } from '../files.ts';
import { poll } from './claim-faults.ts';
import type { ClaimLists } from './claim-lists.ts';
import { DISK_FOLDER, FILES_CONTAINER, filesPod, type ClaimClass, type FilesPodOptions } from './claim-manifests.ts';
import { filesPodName, installationSelector, isFilesPod, isOwned, objectName } from './claim-names.ts';

const START_DEADLINE_MS = 90_000;

export interface FilesPodContext {
  cluster: Cluster;
  owner: ClaimClass;
  pods: ClaimLists['pods'];
  manifest: FilesPodOptions;
  /** Uids of Pods without uploads that a crash has left, by name. */
  cleaned: Map<string, string>;
}

export const runInPod = (
  { cluster }: Pick<FilesPodContext, 'cluster'>,
  pod: string,
  script: string,
  args: readonly string[],
  signal: AbortSignal,
): Promise<PodExec> =>
  cluster.exec(pod, { container: FILES_CONTAINER, command: ['sh', '-c', script, 'sh', DISK_FOLDER, ...args] }, signal);

/** Returns the name of a Pod that runs; starts one if there is none. */
export async function ensureFilesPod(context: FilesPodContext, disk: DiskId, signal: AbortSignal): Promise<string> {
  const { cluster, owner } = context;
  const name = filesPodName(disk);
  const until = withDeadline(signal, START_DEADLINE_MS);
  let trouble = 'it waits';
  try {
    return await poll(async () => {
      const pod = await cluster.get(resources.pods, name, until);
      if (pod === null) await startPod(context, disk, until);
      else if (!isOwned(pod, owner)) throw new Error(`the Pod ${name} is not of this installation`);
      else if (isOver(pod)) await removePod(context, pod, until);
      else if (isRunning(pod)) return await prepare(context, pod, until);
      else trouble = troubleOf(pod) ?? trouble;
      return undefined;
    }, until);
  } catch (error) {
    signal.throwIfAborted();
    if (!until.aborted) throw error;
    throw new StorageFault('away', `the Pod for the files of the disk does not start: ${trouble}`, error);
  }
}

async function startPod(context: FilesPodContext, disk: DiskId, signal: AbortSignal): Promise<void> {
  const { cluster, owner, pods, manifest } = context;
  const users = await podsUsing(context, objectName(disk), signal);
  const node = users.find((pod) => !isFilesPod(pod) && pod.spec?.nodeName !== undefined)?.spec?.nodeName ?? null;
  try {
    await cluster.create(resources.pods, filesPod(owner, disk, manifest, node), signal);
  } catch (error) {
    if (!isFailure(error, 'exists')) throw error;
  }
  pods.invalidate();
}

async function prepare(context: FilesPodContext, { metadata }: Pod, signal: AbortSignal): Promise<string> {
  const { name = '', uid = '' } = metadata ?? {};
  if (context.cleaned.get(name) === uid) return name;
  await discardUploads((script, args, until) => runInPod(context, name, script, args, until), signal);
  context.cleaned.set(name, uid);
  return name;
}

export async function removePod(
  { cluster, pods }: Pick<FilesPodContext, 'cluster' | 'pods'>,
  { metadata }: Pod,
  signal: AbortSignal,
): Promise<void> {
  const { name = '', uid = '', deletionTimestamp } = metadata ?? {};
  if (deletionTimestamp !== undefined) return;
  await cluster.remove(resources.pods, name, signal, { uid }).catch((error: unknown) => {
    if (!isFailure(error, 'conflict')) throw error;
  });
  pods.invalidate();
}

/** Pods of the installation that mount the claim now. */
export async function podsUsing(
  { cluster, owner }: Pick<FilesPodContext, 'cluster' | 'owner'>,
  claim: string,
  signal: AbortSignal,
): Promise<Pod[]> {
  const labelSelector = installationSelector(owner.installation);
  const all = await cluster.list(resources.pods, signal, { labelSelector });
  return all.filter((pod) => mountsClaim(pod, claim) && !isOver(pod));
}

/** Ended, or about to. */
export const isOver = ({ metadata, status }: Pod): boolean =>
  metadata?.deletionTimestamp !== undefined || status?.phase === 'Succeeded' || status?.phase === 'Failed';

const isRunning = ({ status }: Pod): boolean =>
  status?.phase === 'Running' && status.containerStatuses?.every(({ ready }) => ready) === true;

export const mountsClaim = ({ spec }: Pod, claim: string): boolean =>
  spec?.volumes?.some(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === claim) === true;

function troubleOf({ status }: Pod): string | undefined {
  const waiting = status?.containerStatuses?.[0]?.state?.waiting;
  const unmet = status?.conditions?.find(({ status: met }) => met === 'False');
  const words = [waiting?.reason, waiting?.message, unmet?.reason, unmet?.message];
  return words.filter((text) => text !== undefined && text !== '').join(': ') || undefined;
}
