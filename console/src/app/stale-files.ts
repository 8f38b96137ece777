/**
 * A page that is older than the files of the server: after an upgrade, a part that is loaded when
 * it is needed is gone. The page loads itself again, unless the server does not answer, and not
 * twice within a while: a part that stays away is an error to show.
 */
import { base } from './base.ts';

const KEY = 'berth.reloaded';
const ONCE_IN_MS = 30_000;

const failedLoads = new WeakSet<Error>();

/** Whether a part of the console could not be loaded. */
export const isFailedLoad = (error: unknown): boolean => error instanceof Error && failedLoads.has(error);

export function reloadForNewFiles(): void {
  window.addEventListener('vite:preloadError', ({ payload }) => {
    failedLoads.add(payload);
    void reloadOnce();
  });
}

/** Without a server, a reload would lose the page. */
export async function reloadIfServed(): Promise<void> {
  if (await isServed()) window.location.reload();
}

async function isServed(): Promise<boolean> {
  const answer = await fetch(`${base}/`, { method: 'HEAD' }).catch(() => null);
  return answer?.ok ?? false;
}

async function reloadOnce(): Promise<void> {
  const lastMs = Number(sessionStorage.getItem(KEY) ?? 0);
  if (Date.now() - lastMs < ONCE_IN_MS) return;
  if (!(await isServed())) return;
  sessionStorage.setItem(KEY, String(Date.now()));
  window.location.reload();
}
