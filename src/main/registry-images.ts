/** Public images by registry. */
import type { OfferedImage } from './first-run.ts';

const jupyter = (name: string, title: string, ...tags: string[]): OfferedImage => ({
  key: `jupyter-${name}`,
  name: title,
  ref: `quay.io/jupyter/${name}-notebook:python-3.12`,
  tags: ['jupyterlab', ...tags],
});

export const registries: readonly { url: string; images: OfferedImage[] }[] = [
  {
    url: 'https://quay.io/v2/',
    images: [
      jupyter('minimal', 'Jupyter minimal'),
      jupyter('scipy', 'Jupyter SciPy', 'scipy'),
      jupyter('pytorch', 'Jupyter PyTorch', 'pytorch'),
    ],
  },
];
