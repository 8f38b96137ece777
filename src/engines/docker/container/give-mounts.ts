/**
 * Gives empty disks to the user of an image whose own command runs, as Docker does with new volumes
 * of its own. Goes through a container that has not started, wherever its engine is.
 */
import { buffer, text } from 'node:stream/consumers';
import type { Container } from 'dockerode';
import { extract, pack, type Headers } from 'tar-stream';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { statusOf } from '../../../docker/faults.ts';

const MAX_TABLE_BYTES = 1024 * 1024;

interface User {
  uid: number;
  gid: number;
}

export async function giveMounts(
  { docker, call }: DockerClient,
  id: string,
  targets: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  if (targets.length === 0) return;
  const container = docker.getContainer(id);
  const { Config } = await call(signal, (abortSignal) => container.inspect({ abortSignal }));
  const read = (path: string): Promise<Entry[]> => call(signal, () => entriesAt(container, path, signal));
  const user = await userOf(Config.User, async (path) => (await read(path))[0]?.text ?? '');
  if (user.uid === 0) return;
  const tar = pack();
  for (const target of targets) {
    const [top, ...files] = await read(target);
    if (top === undefined || top.header.uid !== 0 || files.length > 0) continue;
    const { mode = 0o755, mtime = new Date(0) } = top.header;
    tar.entry({ name: `${target.slice(1)}/`, type: 'directory', mode, mtime, ...user });
  }
  tar.finalize();
  const archive = await buffer(tar);
  await call(signal, (abortSignal) => container.putArchive(archive, { path: '/', abortSignal }));
}

/** Reads `USER` of an image as the engine does: names or numbers, the group optional. */
export async function userOf(user: string, read: (path: string) => Promise<string>): Promise<User> {
  const [who = '', group = ''] = user.split(':');
  if (who === '') return { uid: 0, gid: 0 };
  const rows = async (path: string) => (await read(path)).split('\n').map((line) => line.split(':'));
  const own = (await rows('/etc/passwd')).find(([name, , uid]) => name === who || uid === who);
  const ofGroup = group === '' ? own?.[3] : (await rows('/etc/group')).find(([name]) => name === group)?.[2];
  return { uid: numberOf(own?.[2] ?? who), gid: numberOf(ofGroup ?? group) };
}

const numberOf = (digits: string): number => (/^\d{1,10}$/.test(digits) ? Number(digits) : 0);

interface Entry {
  header: Headers;
  /** Content of a small file. */
  text: string;
}

/** Reads the first two entries below a path: the second says that a folder has content. */
async function entriesAt(container: Container, path: string, abortSignal: AbortSignal): Promise<Entry[]> {
  let stream: NodeJS.ReadableStream;
  try {
    stream = await container.getArchive({ path, abortSignal });
  } catch (error) {
    if (statusOf(error) === 404) return [];
    throw error;
  }
  return new Promise((resolve, reject) => {
    const entries: Entry[] = [];
    const tar = extract();
    const finish = (): void => {
      stream.unpipe(tar);
      if ('destroy' in stream && typeof stream.destroy === 'function') stream.destroy();
      resolve(entries);
    };
    tar.on('entry', (header, content, next) => {
      if (header.type === 'directory' || (header.size ?? 0) > MAX_TABLE_BYTES || entries.length > 0) {
        entries.push({ header, text: '' });
        content.resume();
        if (entries.length === 2) finish();
        else next();
        return;
      }
      text(content).then((found) => {
        entries.push({ header, text: found });
        next();
      }, reject);
    });
    tar.once('finish', finish);
    tar.once('error', reject);
    stream.once('error', reject);
    stream.pipe(tar);
  });
}
