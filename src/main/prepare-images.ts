/** Builds the default image, and offers public images while their registry answers. */
import { withDeadline } from '../async/abort.ts';
import { retry } from '../async/retry.ts';
import type { Logger } from 'pino';
import { isEngineAway } from '../domain/regions/engine-fault.ts';
import { errorText } from '../domain/kernel/unknown-error.ts';
import type { ImagePulls } from '../control/regions/images/image-pulls.ts';
import type { Engine } from '../engines/contract.ts';
import type { OfferedImage } from './first-run.ts';

const jupyter = (name: string, title: string, ...tags: string[]): OfferedImage => ({
  key: `jupyter-${name}`,
  name: title,
  ref: `quay.io/jupyter/${name}-notebook:python-3.12`,
  tags: ['jupyterlab', ...tags],
});

const REGISTRY_URL = 'https://quay.io/v2/';
const REGISTRY_IMAGES = [
  jupyter('minimal', 'Jupyter minimal'),
  jupyter('scipy', 'Jupyter SciPy', 'scipy'),
  jupyter('pytorch', 'Jupyter PyTorch', 'pytorch'),
];

const RETRY_MS = 15_000;
const PROGRESS_STEP_PERCENT = 10;
const ANSWER_DEADLINE_MS = 5_000;
const REGISTRY_CHECK_EVERY_MS = 3_600_000;

/** Builds or pulls the image, retries until it succeeds, and logs the progress. */
export async function prepareImage(
  { imagePulls, engine, ref, log }: { imagePulls: ImagePulls; engine: Engine; ref: string; log: Logger },
  signal: AbortSignal,
): Promise<void> {
  const prepare = async (): Promise<void> => {
    let loggedPercent = -PROGRESS_STEP_PERCENT;
    const onProgress = ({ text, done, total }: { text: string; done: number; total: number }): void => {
      const percent = total > 0 ? Math.floor((done / total) * 100) : 0;
      if (percent < loggedPercent + PROGRESS_STEP_PERCENT) return;
      loggedPercent = percent;
      log.info({ image: ref, percent }, `preparing the default image: ${text}`);
    };
    await imagePulls.ensure(engine, { ref }, onProgress, signal);
    log.info({ image: ref }, 'the default image is ready');
  };
  const onError = (error: unknown, pauseMs: number): void => {
    const message = `the default image could not be prepared; retrying in ${pauseMs / 1000} s`;
    log[isEngineAway(error) ? 'debug' : 'warn']({ image: ref, reason: errorText(error) }, message);
  };
  await retry(prepare, { signal, firstMs: RETRY_MS, onError });
}

/** Adds the registry's images to the catalog once it answers, with any HTTP status. */
export async function offerRegistryImages(
  { offer, log }: { offer: (image: OfferedImage) => Promise<unknown>; log: Logger },
  signal: AbortSignal,
): Promise<void> {
  const registry = REGISTRY_URL;
  const onError = (): void => log.debug({ registry }, 'the registry does not answer; its images are not offered');
  const ask = (): Promise<unknown> => fetch(registry, { signal: withDeadline(signal, ANSWER_DEADLINE_MS) });
  const answer = await retry(ask, { signal, firstMs: REGISTRY_CHECK_EVERY_MS, onError });
  if (answer === undefined) return;
  for (const image of REGISTRY_IMAGES) await offer(image);
  const images = REGISTRY_IMAGES.length;
  log.info({ registry, images }, 'the registry answers; its images are in the catalog');
}
