/**
 * # What instances lack
 *
 * OpenSSH's sftp-server and rsync, with their loader and libraries, for images that have neither: one folder of the host, which every
 * instance sees read-only at `/opt/berth`, whatever its image is made of. They are taken out of an image of ours that has them, by
 * a container without network that writes into a folder beside, once for each version of that image (decision 27).
 *
 * What is mounted is the folder that holds the versions, so an instance that came before them has them when they are there, and newer ones
 * too: `bin` is a link, put in place by a rename. Without them all goes on as it is.
 */
import { createHash, randomUUID } from 'node:crypto';
import { access, chmod, mkdir, readdir, readFile, readlink, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from 'pino';
import { labels } from '../../labels.ts';
import type { Client } from '../client/client.ts';
import { bindOf, TOOLS_FOLDER } from './create-options.ts';
import { isImageGone } from '../client/faults.ts';
import type { Host } from '../client/host.ts';

const PREPARE_MS = 120_000;
/** When its image is not there yet, and when it went wrong. */
const LOOK_AGAIN_MS = 30_000;
const TRY_AGAIN_MS = 10 * 60_000;

/** Beside each tool what it is linked with; the loader is told to look there and nowhere else first. */
const COLLECT = `
exec 2>/out/log
set -eu
mkdir /out/made /out/made/bin /out/made/lib
for tool in /usr/lib/openssh/sftp-server /usr/bin/rsync; do
  name=\${tool##*/}
  cp -L "$tool" "/out/made/lib/$name"
  ldd "$tool" | while read -r library arrow place _; do
    case $library$arrow in
      *=\\>) cp -L "$place" "/out/made/lib/$library" ;;
      */ld-*) cp -L "$library" /out/made/lib/loader ;;
    esac
  done
  printf '#!/bin/sh\\nexec %s/lib/loader --library-path %s/lib %s/lib/%s "$@"\\n' "$1" "$1" "$1" "$name" >"/out/made/bin/$name"
done
chmod 0755 /out/made /out/made/bin /out/made/lib /out/made/bin/* /out/made/lib/loader
/out/made/lib/loader --library-path /out/made/lib /out/made/lib/rsync --version >/dev/null
/out/made/lib/loader --list --library-path /out/made/lib /out/made/lib/sftp-server >/dev/null
`;

export interface ToolsConfig {
  /** Absolute, of this machine; made when it is not there. */
  folder: string;
  /** A Debian image that has them. */
  imageRef: string;
}

export interface Tools {
  /** What is to be mounted; undefined where nothing can be. */
  folder(): Promise<string | undefined>;
  /** Sees to it, beside whatever else goes on, that they are there. */
  prepare(): void;
  /** The same, when this image was seen just now. */
  sawImage(ref: string): void;
  stop(): Promise<void>;
}

export function makeTools(options: {
  client: Client;
  installation: string;
  host: Host;
  setting: ToolsConfig | undefined;
  log: Pick<Logger, 'info' | 'warn'>;
}): Tools {
  const { client, installation, host, setting, log } = options;
  if (setting === undefined || !client.local)
    return {
      folder: () => Promise.resolve(undefined),
      prepare: () => {},
      sawImage: () => {},
      stop: () => Promise.resolve(),
    };
  const { docker, call } = client;
  const { folder, imageRef } = setting;
  const hash = createHash('sha256').update([imageRef, process.arch, COLLECT].join('\0'));
  const version = path.join('versions', hash.digest('hex').slice(0, 12));
  const stopping = new AbortController();
  let preparing: Promise<void> | undefined;
  let isReady = false;
  let notBeforeMs = -Infinity;
  let lacksImage = false;

  async function hasImage(signal: AbortSignal): Promise<boolean> {
    try {
      await call(signal, () => docker.getImage(imageRef).inspect());
      return true;
    } catch (error) {
      if (isImageGone(error)) return false;
      throw error;
    }
  }

  /** What an earlier life left half done. */
  async function clear(signal: AbortSignal): Promise<void> {
    const beside = await readdir(path.dirname(folder));
    const left = beside.filter((name) => name.startsWith(`${path.basename(folder)}.`));
    for (const name of left) await rm(path.join(path.dirname(folder), name), { recursive: true, force: true });
    const filters = { label: [`${labels.installation}=${installation}`, `${labels.kind}=tools`] };
    const containers = await call(signal, (abortSignal) => docker.listContainers({ all: true, filters, abortSignal }));
    for (const { Id } of containers) await remove(Id);
  }

  async function collect(out: string, signal: AbortSignal): Promise<void> {
    // As who we are, so that what it writes is ours.
    const { rootless } = await host.facts(signal);
    const request = {
      Image: imageRef,
      Entrypoint: ['/bin/sh', '-c', COLLECT, 'sh', path.posix.join(TOOLS_FOLDER, version)],
      Cmd: [],
      User: rootless ? '0' : `${process.getuid?.() ?? 0}:${process.getgid?.() ?? 0}`,
      Labels: { [labels.installation]: installation, [labels.kind]: 'tools' },
      HostConfig: {
        NetworkMode: 'none',
        Mounts: [bindOf({ source: out, target: '/out', readOnly: false })],
        ReadonlyRootfs: true,
        CapDrop: ['ALL'],
        SecurityOpt: ['no-new-privileges'],
        Memory: 256 * 1024 * 1024,
        PidsLimit: 64,
      },
    };
    const container = await call(signal, () => docker.createContainer(request));
    try {
      await call(signal, () => container.start());
      const { StatusCode } = await call(signal, () => container.wait({ abortSignal: signal }));
      if (StatusCode !== 0) throw new Error((await readFile(path.join(out, 'log'), 'utf8')).slice(-2_000));
    } finally {
      await remove(container.id);
    }
  }

  const remove = (id: string): Promise<unknown> =>
    docker
      .getContainer(id)
      .remove({ force: true })
      .catch(() => {}); // it is looked for again before the next is made

  async function makeVersion(signal: AbortSignal): Promise<void> {
    await clear(signal);
    const out = `${folder}.${randomUUID()}`;
    await mkdir(out, { mode: 0o700 });
    try {
      await collect(out, signal);
      await rename(path.join(out, 'made'), path.join(folder, version));
    } finally {
      await rm(out, { recursive: true, force: true });
    }
  }

  /** The one before stays: somebody may be about to begin a program of it. */
  async function putInPlace(): Promise<void> {
    const place = path.join(folder, 'bin');
    const target = path.join(version, 'bin');
    const before = await readlink(place).catch(() => '');
    if (before === target) return;
    const fresh = path.join(folder, `.bin.${randomUUID()}`);
    await symlink(target, fresh);
    await rename(fresh, place);
    for (const name of await readdir(path.join(folder, 'versions'))) {
      const other = path.join('versions', name);
      if (other !== version && other !== path.dirname(before))
        await rm(path.join(folder, other), { recursive: true, force: true });
    }
  }

  async function prepare(signal: AbortSignal): Promise<void> {
    const beganMs = performance.now();
    for (const place of [folder, path.join(folder, 'versions')]) {
      await mkdir(place, { recursive: true });
      await chmod(place, 0o755); // the umask had its say
    }
    if (!(await isThere(path.join(folder, version)))) {
      // It is made when it is wanted for instances, or never: then they do without.
      if (!(await hasImage(signal))) return void (lacksImage = true);
      await makeVersion(signal);
      log.info(
        { folder, ms: Math.round(performance.now() - beganMs) },
        'took sftp-server and rsync out of the default image',
      );
    }
    await putInPlace();
    isReady = true;
  }

  function begin(): void {
    if (isReady || preparing !== undefined || stopping.signal.aborted || performance.now() < notBeforeMs) return;
    notBeforeMs = performance.now() + LOOK_AGAIN_MS;
    lacksImage = false;
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(PREPARE_MS)]);
    preparing = prepare(signal)
      .catch((error: unknown) => {
        notBeforeMs = performance.now() + TRY_AGAIN_MS;
        if (!stopping.signal.aborted)
          log.warn({ err: error }, 'instances whose images have no sftp-server and no rsync do without for now');
      })
      .finally(() => (preparing = undefined));
  }

  return {
    folder: () =>
      mkdir(folder, { recursive: true }).then(
        () => folder,
        () => undefined,
      ),
    prepare: begin,
    sawImage(ref) {
      if (ref !== imageRef) return;
      if (lacksImage) notBeforeMs = -Infinity;
      begin();
    },
    async stop() {
      stopping.abort();
      await preparing;
    },
  };
}

const isThere = (place: string): Promise<boolean> =>
  access(place).then(
    () => true,
    () => false,
  );
