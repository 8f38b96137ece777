/** Archives of images as `docker save` writes them, made without an engine or a registry. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { access, readFile } from 'node:fs/promises';
import { pack } from 'tar-stream';

export interface ImageOptions {
  /** Name with tag. */
  name: string;
  /** Programs by path, without a leading slash; all are executable. */
  files: Readonly<Record<string, Buffer>>;
  /** Targets of symbolic links by path. */
  links?: Readonly<Record<string, string>>;
  entrypoint?: readonly string[];
}

export function imageArchive({ name, files, links = {}, entrypoint }: ImageOptions): Readable {
  return Readable.from(
    (async function* archive() {
      const layer = pack();
      for (const [file, content] of Object.entries(files)) layer.entry({ name: file, mode: 0o755 }, content);
      for (const [link, linkname] of Object.entries(links)) layer.entry({ name: link, type: 'symlink', linkname });
      layer.finalize();
      const layerTar = await buffer(layer);
      const config = JSON.stringify({
        architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
        os: 'linux',
        config: { Env: ['PATH=/usr/sbin:/usr/bin:/sbin:/bin'], Entrypoint: entrypoint },
        rootfs: { type: 'layers', diff_ids: [`sha256:${sha256(layerTar)}`] },
      });
      const configName = `${sha256(config)}.json`;
      const image = pack();
      image.entry({ name: configName }, config);
      image.entry({ name: 'layer.tar' }, layerTar);
      image.entry(
        { name: 'manifest.json' },
        JSON.stringify([{ Config: configName, RepoTags: [name], Layers: ['layer.tar'] }]),
      );
      image.finalize();
      yield* image;
    })(),
  );
}

const sha256 = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

/** An image of Debian's static busybox, with the programs that `links` name. */
export async function busyboxArchive(name: string, applets: readonly string[]): Promise<Readable> {
  const file = '/bin/busybox';
  await access(file).catch(() => {
    throw new Error(`There is no ${file}: install the package busybox-static.`);
  });
  const links = Object.fromEntries(applets.map((applet) => [`bin/${applet}`, 'busybox']));
  return imageArchive({ name, files: { 'bin/busybox': await readFile(file) }, links });
}
