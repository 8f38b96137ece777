/** Checks of a registered image, daily comparison of digests, downloads on request. */
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { isLocalRef, isPinned, registryServerOf } from '../../../domain/regions/image-ref.ts';
import type { Limits } from '../../../domain/compute/instance-states.ts';
import { beginStage, endOperation, failOperation } from '../../../domain/compute/operation.ts';
import { knownImages } from '../../../store/tables/image-facts.ts';
import { writeReconciledImage, type ImageRow } from '../../../store/tables/images.ts';
import { parseOperation } from '../../../store/tables/json-schemas.ts';
import type { LeasedRow, ReconcileResult, RegionDrivers, TaskDeps } from '../../kernel/ports.ts';
import { uncheckedText, type CheckImage } from './check-image.ts';
import type { ImagePulls } from './image-pulls.ts';
import { guardOf, operationOf, writeResult } from './image-results.ts';
import { recordDigest } from './known-images.ts';
import { makeProgressReporter } from './progress-reporter.ts';
import { withCredentialAdvice, type CredentialsFor } from './registries.ts';

export interface FollowDeps extends Pick<TaskDeps, 'store' | 'regions' | 'time'> {
  limits: Pick<Limits, 'imageRecheckMs' | 'imageFollowMs' | 'imageDeadlineMs'>;
  checkImage: CheckImage;
  imagePulls: ImagePulls;
  credentialsFor: CredentialsFor;
}

interface Work extends FollowDeps {
  leased: LeasedRow<ImageRow>;
}

export function followImage(work: Work): Promise<ReconcileResult> {
  const { row } = work.leased;
  const operation = row.operation === null ? null : parseOperation(row.operation, 'image', row.id);
  if (operation?.kind === 'refreshImage' && operation.endedAtMs === null) return refresh(work);
  return row.ownerId !== null && row.stateText !== '' && row.state === 'Ready' ? checkAgain(work) : compare(work);
}

async function checkAgain(work: Work): Promise<ReconcileResult> {
  const { leased, store, time, limits, checkImage } = work;
  const { row } = leased;
  const check = await checkImage(row.ownerId ?? undefined, row.ref);
  const isUnchecked = check.kind === 'unchecked';
  const stateText = isUnchecked ? uncheckedText(check.why) : check.kind === 'refused' ? check.why : '';
  const result = { state: check.kind === 'refused' ? 'Failed' : row.state, stateText };
  const written = await store.write((tx) => writeReconciledImage(tx, guardOf({ leased }), result));
  if (!written) return { dueAtMs: time.now() };
  if (check.kind === 'fits') await recordDigest(work, row, check.digest);
  return { dueAtMs: isUnchecked && !check.isFinal ? time.now() + limits.imageRecheckMs : null };
}

async function compare(work: Work): Promise<ReconcileResult> {
  const { leased, time, limits, checkImage } = work;
  const { row } = leased;
  const isOffered = row.ownerId !== null || row.inCatalog === 1;
  if (!isOffered || row.facts === null || isLocalRef(row.ref) || isPinned(row.ref)) return { dueAtMs: null };
  const check = await checkImage(row.ownerId ?? undefined, row.ref);
  if (check.kind === 'fits') await recordDigest(work, row, check.digest);
  return { dueAtMs: time.now() + limits.imageFollowMs };
}

async function refresh(work: Work): Promise<ReconcileResult> {
  const { leased, store, regions, time, limits } = work;
  const { row, signal } = leased;
  const known = (await knownImages(store.read, [row.id])).get(row.id)?.regions ?? {};
  const having = regions.all().filter(({ regionId }) => known[regionId] !== undefined);
  const reporter = makeProgressReporter(time.elapsed, (_, progress) => {
    const operation = operationOf(row, (current) => beginStage(current, 'Image', time.now(), progress));
    return store.write((tx) => writeReconciledImage(tx, guardOf(work), { operation }));
  });
  const by = AbortSignal.any([signal, time.deadline(limits.imageDeadlineMs)]);
  let fault: EngineFault | null = null;
  try {
    for (const drivers of having.length > 0 ? having : regions.all().slice(0, 1)) {
      fault ??= await download(work, drivers, { onProgress: reporter.onProgress, signal: by });
    }
  } finally {
    await reporter.finish();
  }
  const dueAtMs = time.now() + limits.imageFollowMs;
  const failed = fault;
  const result =
    failed === null
      ? await writeResult(work, 'image.refreshed', {}, (current, nowMs) => endOperation(current, 'Succeeded', nowMs))
      : await writeResult(work, 'image.refreshFailed', {}, (current, nowMs) =>
          failOperation(current, { reason: 'RefreshFailed', message: failed.message, whatToDo: WHAT_TO_DO }, nowMs),
        );
  return result !== 'gone' && result.dueAtMs === null ? { dueAtMs } : result;
}

const WHAT_TO_DO = 'Nothing has changed. Remove the cause, and refresh the image again.';

async function download(
  { leased, imagePulls, credentialsFor, limits }: Work,
  { engine }: RegionDrivers,
  { onProgress, signal }: { onProgress: Parameters<ImagePulls['ensure']>[2]; signal: AbortSignal },
): Promise<EngineFault | null> {
  const { ref, ownerId } = leased.row;
  const ofAccount =
    ownerId === null ? {} : { ownerId, credentials: await credentialsFor(ownerId, registryServerOf(ref)) };
  const image = { ref, ...ofAccount, follows: isLocalRef(ref) ? undefined : ('always' as const) };
  try {
    await imagePulls.ensure(engine, image, onProgress, signal);
    return null;
  } catch (error) {
    leased.signal.throwIfAborted();
    if (error instanceof EngineFault) return withCredentialAdvice(error, image);
    if (!signal.aborted) throw error;
    const text = `the image was not downloaded within ${limits.imageDeadlineMs / 1_000} s`;
    return new EngineFault('unreachable', text, { retry: true });
  }
}
