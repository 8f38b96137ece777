/**
 * Used bytes of claims, by `df` in a Pod that mounts them: Berth may run commands in its own Pods,
 * and needs no right over nodes. Root inside an instance can fake the answer.
 */
import type { Readable } from 'node:stream';
import { raceAbort } from '../../async/abort.ts';
import { makeCache } from '../../async/cache.ts';
import { makeSemaphore } from '../../async/semaphore.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Pod } from '../../kubernetes/api-objects.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import { bytesOfQuantity } from './claim-manifests.ts';
import { isOver, mountsClaim } from './files-pod.ts';
import type { ClaimLists } from './claim-lists.ts';

/** A command in each Pod. */
const ANSWER_AGE_MS = 300_000;
const DEADLINE_MS = 10_000;
const COMMANDS_AT_ONCE = 8;
const MAX_PODS = 10_000;
/** A larger file system holds several disks, as with NFS or folders of a node. */
const MAX_SHARE_OF_CLAIM = 1.1;

/** The answers for the paths in their order, each before a line with a dot. */
const SCRIPT = 'for path; do df -kP "$path" 2>/dev/null; echo .; done';
const END = /^\.\n/m;
const OUTPUT_LIMIT = 64 * 1024;
const BYTES_PER_KIB = 1024;

interface FileSystem {
  totalBytes: number;
  usedBytes: number;
}

type Answers = ReadonlyMap<string, FileSystem>;

export interface ClaimUsage {
  /** Null while no Pod mounts the claim, and where its file system is not its own. */
  of(claim: string): Promise<number | null>;
}

export function makeClaimUsage(
  cluster: Cluster,
  { claims, pods }: Pick<ClaimLists, 'claims' | 'pods'>,
  { elapsed, ageMs = ANSWER_AGE_MS }: { elapsed: () => number; ageMs?: number | undefined },
): ClaimUsage {
  const commands = makeSemaphore(COMMANDS_AT_ONCE);
  const answers = makeCache<Answers>({
    load: async (uid) => {
      const pod = (await pods.list()).find(({ metadata }) => metadata?.uid === uid);
      if (pod === undefined) return new Map();
      return commands
        .run(() => readAnswers(cluster, pod))
        .catch((error: unknown) => {
          // A Pod that ends, or an image without the programs.
          if (isFailure(error, 'absent', 'conflict', 'invalid', 'unavailable')) return new Map();
          throw error;
        });
    },
    elapsed,
    ttlMs: ageMs,
    maxEntries: MAX_PODS,
  });
  return {
    async of(claim) {
      const isUse = (pod: Pod): boolean => pod.status?.phase === 'Running' && !isOver(pod) && mountsClaim(pod, claim);
      const uid = (await pods.list()).find(isUse)?.metadata?.uid;
      if (uid === undefined) return null;
      const found = (await answers.get(uid)).get(claim);
      const size = (await claims.list()).find(({ metadata }) => metadata?.name === claim)?.status?.capacity?.[
        'storage'
      ];
      if (found === undefined || found.totalBytes > MAX_SHARE_OF_CLAIM * (bytesOfQuantity(size) ?? 0)) return null;
      return found.usedBytes;
    },
  };
}

/** Paths of a container that are claims; the container with most of them. */
function mountsOf({ spec }: Pod): { container: string; paths: Map<string, string> } {
  const claimOf = new Map(spec?.volumes?.map(({ name, persistentVolumeClaim: of }) => [name, of?.claimName]));
  const all = (spec?.containers ?? []).map(({ name, volumeMounts = [] }) => ({
    container: name,
    paths: new Map(
      volumeMounts.flatMap((mount) => {
        const claim = claimOf.get(mount.name);
        return claim === undefined ? [] : [[claim, mount.mountPath] as const];
      }),
    ),
  }));
  return all.toSorted((one, other) => other.paths.size - one.paths.size)[0] ?? { container: '', paths: new Map() };
}

async function readAnswers(cluster: Cluster, pod: Pod): Promise<Answers> {
  const { container, paths } = mountsOf(pod);
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const command = ['sh', '-c', SCRIPT, 'sh', ...paths.values()];
  const exec = await cluster.exec(pod.metadata?.name ?? '', { container, command, stdin: false }, signal);
  try {
    return parseAnswers([...paths.keys()], await raceAbort(startOf(exec.stdout), signal));
  } finally {
    exec.close();
  }
}

async function startOf(stream: Readable): Promise<string> {
  let start = '';
  for await (const chunk of stream) {
    start += String(chunk);
    if (start.length > OUTPUT_LIMIT) break;
  }
  return start;
}

/** The columns are those of POSIX, whatever the language. */
export function parseAnswers(claims: readonly string[], output: string): Answers {
  const answers = output.split(END);
  return new Map(
    claims.flatMap((claim, at) => {
      const [, total, used] = /\s(\d+)\s+(\d+)\s+-?\d+\s+\d+%\s.*\n$/.exec(answers[at] ?? '') ?? [];
      if (total === undefined || used === undefined) return [];
      return [[claim, { totalBytes: Number(total) * BYTES_PER_KIB, usedBytes: Number(used) * BYTES_PER_KIB }] as const];
    }),
  );
}
