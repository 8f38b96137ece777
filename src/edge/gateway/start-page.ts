/**
 * The page of a notebook whose server starts, for its owner: JupyterLab's page, as the image brings
 * it, loads meanwhile, and what it asks for waits until the instance runs. The page compares itself
 * with the server's and reloads if they differ, as with extensions from a volume, or if the start
 * fails.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Admission, Authorized } from './admission.ts';
import { noNotebookPage, pageOfImage, type Answer } from './answers.ts';
import type { Head } from './head.ts';
import type { LabAssets } from './lab-assets.ts';
import type { InstanceTarget } from './routing.ts';
import { isNavigation } from './share-token.ts';

/** Instance of the image's page (`images/notebook/page.sh`). */
const PLACEHOLDER = 'notebook-00000000-0000-0000-0000-000000000000';
const LOOK_MS = 20;
const LONGEST_LOOK_MS = 500;
const HOLD_MS = 30_000;
const PATIENCE_MS = 60_000;
const RETRY_MS = 200;

/**
 * `./` is where a notebook begins; the router of JupyterLab needs the address of its page. Requests
 * of the page wait for the comparison: browsers abort requests when networks come and go, as they
 * do on the host of a container that starts, and JupyterLab sends none again.
 */
const COMPARE = `<script>(() => {
  history.replaceState(null, '', 'lab');
  const { pathname } = location;
  const send = window.fetch.bind(window);
  const pause = () => new Promise((resolve) => setTimeout(resolve, ${RETRY_MS}));
  const sorted = (name, value) =>
    name === 'store_id' ? undefined : Array.isArray(value) ? value.map((one) => JSON.stringify(one)).sort() : value;
  const contentOf = (page) =>
    page.querySelector('script[defer]').getAttribute('src') +
    JSON.stringify(JSON.parse(page.getElementById('jupyter-config-data').textContent), sorted);
  const answered = async () => {
    for (const beganMs = performance.now(); performance.now() - beganMs < ${PATIENCE_MS}; await pause()) {
      const answer = await send('./').catch(() => null);
      if (answer !== null && !answer.headers.has('retry-after')) return answer;
    }
    throw new Error('the notebook does not answer');
  };
  const compare = async () => {
    const answer = await answered();
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    if (new URL(answer.url).pathname !== pathname || contentOf(page) !== contentOf(document))
      throw new Error('the page of the instance is another one');
  };
  const again = () => {
    location.reload();
    return new Promise(() => {});
  };
  const compared = compare().catch(again);
  window.fetch = (...request) => compared.then(() => send(...request));
  addEventListener('error', ({ target }) => target instanceof HTMLScriptElement && again(), true);
})();</script>`;

interface Asked {
  head: Head;
  method: string;
  target: InstanceTarget;
}

type Pages = Pick<LabAssets, 'page'>;

async function pageOf(
  pages: Pages,
  { owner, route }: Authorized,
  { mount }: InstanceTarget,
): Promise<string | undefined> {
  const { startingImage } = route;
  return owner && mount === 'notebook' && startingImage !== undefined ? pages.page(startingImage) : undefined;
}

/** Null for all but the address with which a notebook is opened, and any where there is none. */
export async function startPage(
  pages: Pages,
  authorized: Authorized,
  { head, method, target }: Asked,
  apiUrl: string,
): Promise<Answer | null> {
  if (target.mount === 'notebook' && authorized.route.notebook?.state === 'command')
    return noNotebookPage(target, apiUrl);
  if (method !== 'GET' || !isNavigation(head, method) || target.upstreamPath !== `${target.prefix}/`) return null;
  const page = await pageOf(pages, authorized, target);
  if (page === undefined) return null;
  return pageOfImage(page.replaceAll(PLACEHOLDER, target.instanceId).replace('</body>', (end) => COMPARE + end));
}

/** Authorizes again until the instance runs, if such a page can be there. */
export async function authorizeStarted(
  pages: Pages,
  { head, method, target }: Asked,
  authorize: () => Promise<Admission>,
  isOver: () => boolean,
): Promise<Admission> {
  let waitedMs = 0;
  for (;;) {
    const admission = await authorize();
    if ('refused' in admission || admission.route.running || isNavigation(head, method)) return admission;
    if (waitedMs > HOLD_MS || isOver() || (await pageOf(pages, admission, target)) === undefined) return admission;
    const waitMs = Math.min(Math.max(LOOK_MS, waitedMs / 10), LONGEST_LOOK_MS);
    waitedMs += waitMs;
    await delay(waitMs);
  }
}
