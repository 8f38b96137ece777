/**
 * A page that is older than the files of the server: after an upgrade, a part that is loaded when
 * it is needed is gone. The page loads itself again, unless the server does not answer, and not
 * twice within a while: a part that stays away is an error to show.
 */
const KEY = 'berth.reloaded';
const ONCE_IN_MS = 30_000;

export function reloadForNewFiles(): void {
  window.addEventListener('vite:preloadError', () => void reloadOnce());
}

async function reloadOnce(): Promise<void> {
  const lastMs = Number(sessionStorage.getItem(KEY) ?? 0);
  if (Date.now() - lastMs < ONCE_IN_MS) return;
  const answer = await fetch('/', { method: 'HEAD' }).catch(() => null);
  if (!answer?.ok) return;
  sessionStorage.setItem(KEY, String(Date.now()));
  window.location.reload();
}
