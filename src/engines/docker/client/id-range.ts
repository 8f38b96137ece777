/**
 * The ids of an engine with user namespaces (`dockerd --userns-remap`). One range serves all
 * containers of such an engine: id n inside is id `uid + n` of the host.
 */
import { readFile } from 'node:fs/promises';

export interface IdRange {
  uid: number;
  gid: number;
  count: number;
}

const DOCKER_DEFAULT_COUNT = 65_536;

interface EngineInfo {
  SecurityOptions?: string[] | null | undefined;
  DockerRootDir?: string | null | undefined;
}

export async function readIdRange(info: EngineInfo): Promise<IdRange | null> {
  const [uids, gids] = await Promise.all(
    ['/etc/subuid', '/etc/subgid'].map((file) => readFile(file, 'utf8').catch(() => '')),
  );
  return idRangeOf(info, { uids: uids ?? '', gids: gids ?? '' });
}

export const hasUserNamespaces = ({ SecurityOptions }: EngineInfo): boolean =>
  (SecurityOptions ?? []).some((option) => option.split(',').includes('name=userns'));

/** The engine reports the first ids as the name of its data folder, and the count nowhere. */
export function idRangeOf(info: EngineInfo, { uids, gids }: { uids: string; gids: string }): IdRange | null {
  if (!hasUserNamespaces(info)) return null;
  const [, uid, gid] = /\/(\d+)\.(\d+)$/.exec(info.DockerRootDir ?? '') ?? [];
  if (uid === undefined || gid === undefined) return null;
  return { uid: Number(uid), gid: Number(gid), count: Math.min(countFrom(uids, uid), countFrom(gids, gid)) };
}

/** Lines are `name:first:count`. */
function countFrom(table: string, first: string): number {
  const counts = table.split('\n').flatMap((line) => {
    const [, start, count] = line.trim().split(':');
    return start === first ? [Number(count)] : [];
  });
  return counts.find((count) => count > 0) ?? DOCKER_DEFAULT_COUNT;
}
