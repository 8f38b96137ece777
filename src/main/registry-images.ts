/** Public images, offered where their registry answers: an offer that nobody here could pull would only disappoint. */
import type { Logger } from 'pino';
import type { OfferedImage } from './first-run.ts';

const ANSWER_DEADLINE_MS = 5_000;

const registries: { url: string; images: OfferedImage[] }[] = [
  {
    url: 'https://quay.io/v2/',
    images: [
      {
        key: 'jupyter-minimal',
        name: 'Jupyter minimal',
        ref: 'quay.io/jupyter/minimal-notebook:python-3.12',
        tags: ['jupyterlab'],
      },
      {
        key: 'jupyter-scipy',
        name: 'Jupyter SciPy',
        ref: 'quay.io/jupyter/scipy-notebook:python-3.12',
        tags: ['jupyterlab', 'scipy'],
      },
      {
        key: 'jupyter-pytorch',
        name: 'Jupyter PyTorch',
        ref: 'quay.io/jupyter/pytorch-notebook:python-3.12',
        tags: ['jupyterlab', 'pytorch'],
      },
    ],
  },
];

/** Any answer counts, the usual 401 included: it shows that the registry can be reached from here. */
export async function offerRegistryImages(
  offer: (image: OfferedImage) => Promise<unknown>,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  for (const { url, images } of registries) {
    try {
      await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_DEADLINE_MS)]) });
    } catch {
      if (!signal.aborted)
        log.info({ registry: url }, 'the registry does not answer from here; its images are not offered');
      continue;
    }
    for (const image of images) await offer(image);
    log.info({ registry: url, images: images.length }, 'the registry answers; its images are in the catalog');
  }
}
