/** Image with a shell and this machine's Node.js, as a region's `networkImage` needs. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { imageArchive } from '../cluster/image-archive.ts';

const run = promisify(execFile);

export async function networkImageArchive(name: string): Promise<Readable> {
  const { stdout } = await run('ldd', [process.execPath]);
  const libraries = stdout.split('\n').flatMap((line) => /(\/\S+) \(0x/.exec(line)?.[1] ?? []);
  const files = await Promise.all(
    libraries.map(async (library) => [library.slice(1), await readFile(library)] as const),
  );
  return imageArchive({
    name,
    files: {
      'bin/busybox': await readFile('/bin/busybox'),
      'usr/bin/node': await readFile(process.execPath),
      // Debian's.
      'etc/nsswitch.conf': Buffer.from('hosts: files dns\n'),
      ...Object.fromEntries(files),
    },
    links: Object.fromEntries(['sh', 'sleep'].map((applet) => [`bin/${applet}`, 'busybox'])),
  });
}
