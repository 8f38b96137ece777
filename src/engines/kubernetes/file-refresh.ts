/**
 * Control files of a running instance. The kubelet replaces them with its next look at the Pod,
 * which a changed annotation brings about; a file tells which files are there.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { StatefulSet } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { EngineSpec } from '../contract.ts';
import type { ClusterContext } from './cluster-context.ts';
import { runInside } from './inside/run-inside.ts';
import { controlSecret, DIGEST_FILE, filesDigest } from './manifests/control-secret.ts';
import { annotations, podName } from './manifests/object-names.ts';
import { CONTROL_FOLDER } from './manifests/pod-template.ts';

const FIRST_CHECK_MS = 40;
const MAX_CHECK_MS = 640;
/** Interval of repeated annotations: the kubelet may have looked before it knew of the change. */
const REPEAT_MS = 1_000;
const DEADLINE_MS = 20_000;

export async function refreshFiles(
  context: ClusterContext,
  spec: EngineSpec,
  set: StatefulSet,
  signal: AbortSignal,
): Promise<void> {
  const { cluster, installation } = context;
  const wanted = filesDigest(spec.files);
  if (set.metadata?.annotations?.[annotations.files] === wanted) return;
  const secret = controlSecret(spec, { installation, uid: set.metadata?.uid ?? '' });
  await cluster.apply(resources.secrets, secret, signal);
  const startedMs = performance.now();
  let annotatedMs = -Infinity;
  for (let pauseMs = FIRST_CHECK_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_CHECK_MS)) {
    if (performance.now() - annotatedMs > REPEAT_MS) {
      annotatedMs = performance.now();
      // Another value each time, or the kubelet would not look again.
      const value = `${wanted}.${randomUUID()}`;
      await cluster.patch(
        resources.pods,
        podName(spec.id),
        { metadata: { annotations: { [annotations.files]: value } } },
        signal,
      );
    }
    await delay(pauseMs, undefined, { signal });
    const { stdout } = await runInside(
      context,
      spec.id,
      ['/bin/sh', '-c', `read -r digest <"$1"; echo "$digest"`, 'sh', `${CONTROL_FOLDER}/${DIGEST_FILE}`],
      signal,
    );
    if (stdout.trim() === wanted) return;
    if (performance.now() - startedMs > DEADLINE_MS)
      throw new EngineFault('busy', 'the node has not replaced the control files yet; Berth retries', { retry: true });
  }
}
