/**
 * # Tools for every image
 *
 * sftp-server, rsync and setpriv, with loader and libraries, for images without them: a folder of
 * the host, mounted read-only at `/opt/berth`. A container without network copies the tools out of
 * a default image, once per version of that image (decision 27). The folder holds this version and
 * the one before, so running instances see new ones; `bin` is a symlink, replaced by a rename.
 * The gateway serves `versions/<version>/lab` and `page.html` (`src/edge/gateway/lab-assets.ts`).
 */
import { createHash, randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, readlink, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import type { EngineLog } from '../../engine-log.ts';
import { installationLabel, labels, labelsOf } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { bindOf, SETPRIV, TOOLS_FOLDER } from './create-options.ts';
import { canAccess, type Host } from '../client/host-facts.ts';
import type { DockerImages } from '../image/images.ts';
import { listContainers } from './container-calls.ts';

const PREPARE_MS = 120_000;
/** Pause after a missing image, and after a failure. */
const MISSING_PAUSE_MS = 30_000;
const FAILURE_PAUSE_MS = 10 * 60_000;

/** Copies each tool with its libraries; wrappers run the copied loader with that library path. */
const COLLECT = `
exec 2>/out/log
set -eu
mkdir /out/made /out/made/bin /out/made/lib
for tool in /usr/lib/openssh/sftp-server /usr/bin/rsync /usr/bin/setpriv; do
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
static=/opt/venv/share/jupyter/lab/static
[ -e $static ] || static=/usr/local/share/jupyter/lab/static
build=$(sed -n 's/.*<!-- berth-bundle \\([0-9a-f]*\\) -->.*/\\1/p' $static/index.html)
lab=/out/made/lab/\${build:?}
mkdir -p "$lab/extensions"
for file in $static/*.js $static/*.ttf $static/*.woff $static/*.woff2; do
  [ ! -e "$file" ] || cp "$file" "$lab"
done
for folder in \${static%/lab/static}/labextensions /usr/share/jupyter/labextensions; do
  [ ! -d "$folder" ] || find "$folder" -path '*/static/*.js' | while read -r file; do
    mkdir -p "$lab/extensions$(dirname "\${file#"$folder"}")"
    cp "$file" "$lab/extensions\${file#"$folder"}"
  done
done
find "$lab" -name '*.js' -exec gzip -n -k {} + -o -name '*.ttf' -exec gzip -n -k {} +
if [ -e /usr/share/jupyter/berth-page.html ]; then
  cp /usr/share/jupyter/berth-page.html /out/made/page.html
  printf %s "$2" >/out/made/image
fi
chmod 0755 /out/made /out/made/bin /out/made/lib /out/made/bin/* /out/made/lib/loader
/out/made/lib/loader --library-path /out/made/lib /out/made/lib/rsync --version >/dev/null
/out/made/lib/loader --list --library-path /out/made/lib /out/made/lib/sftp-server >/dev/null
/out/made/lib/loader --library-path /out/made/lib /out/made/lib/setpriv --version >/dev/null
`;

export interface ToolsConfig {
  folder: string;
  imageRef: string;
}

export interface Tools {
  /** Undefined where none can be created. */
  folder(): Promise<string | undefined>;
  /** Whether instances that are created now have it. */
  hasSetpriv(): Promise<boolean>;
  /** Starts copying the tools in the background, when missing. */
  prepare(): void;
  onImagePresent(ref: string): void;
  stop(): Promise<void>;
}

interface ToolsDeps {
  client: DockerClient;
  installation: string;
  host: Host;
  images: Pick<DockerImages, 'inspect'>;
  log: Pick<EngineLog, 'info' | 'warn'>;
}

export function makeTools(deps: ToolsDeps, config: ToolsConfig | undefined): Tools {
  const { client, images, log } = deps;
  if (config === undefined || !client.local)
    return {
      folder: () => Promise.resolve(undefined),
      hasSetpriv: () => Promise.resolve(false),
      prepare: () => {},
      onImagePresent: () => {},
      stop: () => Promise.resolve(),
    };
  const { folder, imageRef } = config;
  const hash = createHash('sha256').update([imageRef, process.arch, COLLECT].join('\0'));
  const version = path.join('versions', hash.digest('hex').slice(0, 12));
  const copyTools = makeToolsCopier(deps, config, version);
  const stopping = new AbortController();
  let preparing: Promise<void> | undefined;
  let isReady = false;
  let notBeforeMs = -Infinity;
  let lacksImage = false;

  async function prepare(signal: AbortSignal): Promise<void> {
    const startedMs = performance.now();
    for (const directory of [folder, path.join(folder, 'versions')]) {
      await mkdir(directory, { recursive: true });
      await chmod(directory, 0o755); // the umask applied at mkdir
    }
    if (!(await canAccess(path.join(folder, version)))) {
      // Never built for this: the image appears with its first instance.
      if ((await images.inspect(imageRef, signal)) === null) return void (lacksImage = true);
      await copyTools(signal);
      log.info(
        { folder, ms: Math.round(performance.now() - startedMs) },
        'took sftp-server, rsync and the scripts of JupyterLab out of the default image',
      );
    }
    await activateVersion(folder, version);
    isReady = true;
  }

  function startPreparing(): void {
    if (isReady || preparing !== undefined || stopping.signal.aborted || performance.now() < notBeforeMs) return;
    notBeforeMs = performance.now() + MISSING_PAUSE_MS;
    lacksImage = false;
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(PREPARE_MS)]);
    preparing = prepare(signal)
      .catch((error: unknown) => {
        notBeforeMs = performance.now() + FAILURE_PAUSE_MS;
        if (!stopping.signal.aborted)
          log.warn({ err: error }, 'could not provide sftp-server and rsync to instances whose images lack them');
      })
      .finally(() => (preparing = undefined));
  }

  return {
    folder: () =>
      mkdir(folder, { recursive: true }).then(
        () => folder,
        () => undefined,
      ),
    hasSetpriv: () => canAccess(path.join(folder, 'bin', SETPRIV)),
    prepare: startPreparing,
    onImagePresent(ref) {
      if (ref !== imageRef) return;
      if (lacksImage) notBeforeMs = -Infinity;
      startPreparing();
    },
    async stop() {
      stopping.abort();
      await preparing;
    },
  };
}

/** Runs the container that copies the tools out of the image, into the folder of `version`. */
function makeToolsCopier(
  { client, installation, host }: ToolsDeps,
  { folder, imageRef }: ToolsConfig,
  version: string,
): (signal: AbortSignal) => Promise<void> {
  const { docker, call } = client;

  async function removeLeftovers(signal: AbortSignal): Promise<void> {
    const siblings = await readdir(path.dirname(folder));
    const leftovers = siblings.filter((name) => name.startsWith(`${path.basename(folder)}.`));
    for (const name of leftovers) await rm(path.join(path.dirname(folder), name), { recursive: true, force: true });
    const label = [installationLabel(installation), `${labels.kind}=tools`];
    for (const { Id } of await listContainers(client, label, signal)) await remove(Id);
  }

  async function collect(out: string, signal: AbortSignal): Promise<void> {
    // Our own user, so we may move its files.
    const { rootless, userNamespace } = await host.facts(signal);
    const request = {
      Image: imageRef,
      Entrypoint: ['/bin/sh', '-c', COLLECT, 'sh', path.posix.join(TOOLS_FOLDER, version), imageRef],
      Cmd: [],
      User: rootless ? '0' : `${process.getuid?.() ?? 0}:${process.getgid?.() ?? 0}`,
      Labels: labelsOf(installation, { kind: 'tools', id: '', ownerId: '', generation: 0 }),
      HostConfig: {
        NetworkMode: 'none',
        ...(userNamespace === null ? {} : { UsernsMode: 'host' }),
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
      .catch(() => {}); // removed before the next version otherwise

  return async (signal) => {
    await removeLeftovers(signal);
    const out = `${folder}.${randomUUID()}`;
    await mkdir(out, { mode: 0o700 });
    try {
      await collect(out, signal);
      await rename(path.join(out, 'made'), path.join(folder, version));
    } finally {
      await rm(out, { recursive: true, force: true });
    }
  };
}

/** Keeps the previous version: a program of it may be starting. */
async function activateVersion(folder: string, version: string): Promise<void> {
  const link = path.join(folder, 'bin');
  const target = path.join(version, 'bin');
  const previous = await readlink(link).catch(() => '');
  if (previous === target) return;
  const fresh = path.join(folder, `.bin.${randomUUID()}`);
  await symlink(target, fresh);
  await rename(fresh, link);
  for (const name of await readdir(path.join(folder, 'versions'))) {
    const other = path.join('versions', name);
    if (other !== version && other !== path.dirname(previous))
      await rm(path.join(folder, other), { recursive: true, force: true });
  }
}
