/**
 * Pods that serve the files of claims, at most one for each. A Pod starts with the first command,
 * and ends when `unmount` finds it idle, or by itself some time after its last command: also after
 * a crash of Berth. Ended Pods count as idle.
 */
import { makeKeyedMutex } from '../../async/mutex.ts';
import type { DiskId } from '../../domain/storage/disk.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Pod } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import type { PodExec } from '../../kubernetes/pod-exec.ts';
import type { OpenShell } from '../files.ts';
import { makeHelperUses } from '../helper-uses.ts';
import { poll, withStorageFaults } from './claim-faults.ts';
import type { ClaimLists } from './claim-lists.ts';
import type { ClaimClass, FilesPodOptions } from './claim-manifests.ts';
import { diskOf, filesPodName, isFilesPod, isOwned } from './claim-names.ts';
import { ensureFilesPod, isOver, podsUsing, removePod, runInPod, type FilesPodContext } from './files-pod.ts';

export interface FilesPods {
  /** Each command starts the Pod if none runs. */
  shell(disk: DiskId): OpenShell;
  /** Starts the Pod, and so binds a claim that waits for its first use. */
  start(disk: DiskId, signal: AbortSignal): Promise<void>;
  /** Absent is success. */
  end(disk: DiskId): Promise<void>;
  untilGone(disk: DiskId, signal: AbortSignal): Promise<void>;
  /** Disks with a Pod that no command has used for a while. */
  idle(): Promise<DiskId[]>;
  /** Pods of others that mount the claim now. */
  othersUsing(claim: string, signal: AbortSignal): Promise<Pod[]>;
}

interface FilesPodsOptions extends Omit<FilesPodOptions, 'idleS'> {
  cluster: Cluster;
  owner: ClaimClass;
  pods: ClaimLists['pods'];
  idleMs: number;
  elapsed: () => number;
}

const DEADLINE_MS = 20_000;
/** The Pod's own limit is longer than Berth's. */
const OWN_IDLE_FACTOR = 2;

export function makeFilesPods({ cluster, owner, pods, idleMs, elapsed, ...manifest }: FilesPodsOptions): FilesPods {
  const idleS = Math.ceil((OWN_IDLE_FACTOR * idleMs) / 1000);
  const context: FilesPodContext = { cluster, owner, pods, manifest: { ...manifest, idleS }, cleaned: new Map() };
  const mutex = makeKeyedMutex<string>();
  const uses = makeHelperUses({ idleMs, elapsed });

  const ensure = (disk: DiskId, signal: AbortSignal): Promise<string> =>
    mutex.run(filesPodName(disk), () => ensureFilesPod(context, disk, signal), signal);

  /** Tries twice: the Pod may end between the look and the command. */
  async function run(disk: DiskId, script: string, args: readonly string[], signal: AbortSignal): Promise<PodExec> {
    try {
      return await runInPod(context, await ensure(disk, signal), script, args, signal);
    } catch (error) {
      if (!isFailure(error, 'absent', 'conflict', 'invalid', 'unavailable')) throw error;
      return runInPod(context, await ensure(disk, signal), script, args, signal);
    }
  }

  const isIdle = (pod: Pod): boolean => isOver(pod) || uses.isIdle(pod.metadata?.name ?? '');

  return {
    shell: (disk) => (script, args, signal) =>
      withStorageFaults(() => uses.during(filesPodName(disk), () => run(disk, script, args, signal))),
    async start(disk, signal) {
      await ensure(disk, signal);
    },
    async end(disk) {
      const name = filesPodName(disk);
      uses.forget(name);
      context.cleaned.delete(name);
      const signal = AbortSignal.timeout(DEADLINE_MS);
      const pod = await cluster.get(resources.pods, name, signal);
      if (pod !== null && isOwned(pod, owner)) await removePod(context, pod, signal);
    },
    async untilGone(disk, signal) {
      const name = filesPodName(disk);
      await poll(async () => ((await cluster.get(resources.pods, name, signal)) === null ? true : undefined), signal);
      pods.invalidate();
    },
    async idle() {
      const found = (await pods.list()).filter((pod) => isFilesPod(pod) && isOwned(pod, owner));
      return found.filter(isIdle).flatMap((pod) => diskOf(pod) ?? []);
    },
    othersUsing: async (claim, signal) => (await podsUsing(context, claim, signal)).filter((pod) => !isFilesPod(pod)),
  };
}
