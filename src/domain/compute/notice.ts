/** Announced stops, as programs inside the instance read them. */
import type { Instance } from './instance.ts';
import type { ResumableStop } from './resume.ts';

export interface Notice {
  /** Diagnosis of the instance after the stop. */
  kind: ResumableStop;
  atMs: number;
}

export const noticeReasons: Readonly<Record<ResumableStop, string>> = {
  OffPeakEnded: 'the off-peak window of the region ends',
  SpotReclaimed: 'an instance at full price needs the capacity of this spot instance',
};

/** The next announced stop. */
export function noticeOf({
  windowEndsAtMs,
  reclaimAtMs,
}: Pick<Instance, 'windowEndsAtMs' | 'reclaimAtMs'>): Notice | null {
  if (windowEndsAtMs !== null && (reclaimAtMs === null || windowEndsAtMs <= reclaimAtMs))
    return { kind: 'OffPeakEnded', atMs: windowEndsAtMs };
  return reclaimAtMs === null ? null : { kind: 'SpotReclaimed', atMs: reclaimAtMs };
}

/** Content of `/run/berth/notice.json`. */
export function noticeFile(instance: Parameters<typeof noticeOf>[0]): string {
  const notice = noticeOf(instance);
  return noticeText(notice && { kind: notice.kind, atUnixMs: notice.atMs, reason: noticeReasons[notice.kind] });
}

export const noticeText = (notice: { kind: ResumableStop; atUnixMs: number; reason: string } | null): string =>
  `${JSON.stringify(notice ?? {})}\n`;
