/** Used bytes of claims, as kubelets report them for the Pods of their nodes. */
import { z } from 'zod';
import { makeCache } from '../../async/cache.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import { mountsClaim } from './files-pod.ts';
import type { ClaimLists } from './claim-lists.ts';

/** A call for each node. */
const SUMMARY_AGE_MS = 300_000;
const DEADLINE_MS = 10_000;
const MAX_NODES = 1_000;

const summary = z.object({
  pods: z.array(
    z.object({
      volume: z
        .array(
          z.object({
            usedBytes: z.number().optional(),
            pvcRef: z.object({ name: z.string(), namespace: z.string() }).optional(),
          }),
        )
        .optional(),
    }),
  ),
});

type Used = ReadonlyMap<string, number>;

export interface ClaimUsage {
  /** Null while no Pod mounts the claim, and where Berth may not ask kubelets. */
  of(claim: string): Promise<number | null>;
}

export function makeClaimUsage(
  cluster: Cluster,
  pods: ClaimLists['pods'],
  { elapsed, ageMs = SUMMARY_AGE_MS }: { elapsed: () => number; ageMs?: number },
): ClaimUsage {
  const summaries = makeCache<Used>({
    load: (node) =>
      readSummary(cluster, node).catch((error: unknown) => {
        // The right to ask kubelets is optional, and a node may be away.
        if (isFailure(error, 'forbidden', 'absent', 'unavailable')) return new Map<string, number>();
        throw error;
      }),
    elapsed,
    ttlMs: ageMs,
    maxEntries: MAX_NODES,
  });
  return {
    async of(claim) {
      const node = (await pods.list()).find((pod) => pod.status?.phase === 'Running' && mountsClaim(pod, claim))?.spec
        ?.nodeName;
      return node === undefined ? null : ((await summaries.get(node)).get(claim) ?? null);
    },
  };
}

async function readSummary(cluster: Cluster, node: string): Promise<Used> {
  const path = `/api/v1/nodes/${encodeURIComponent(node)}/proxy/stats/summary`;
  const answer = summary.parse(await cluster.json(path, AbortSignal.timeout(DEADLINE_MS)));
  const volumes = answer.pods.flatMap(({ volume = [] }) => volume);
  return new Map(
    volumes.flatMap(({ pvcRef, usedBytes }) =>
      pvcRef?.namespace === cluster.namespace && usedBytes !== undefined ? [[pvcRef.name, usedBytes]] : [],
    ),
  );
}
