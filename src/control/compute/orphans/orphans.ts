/** Use cases of orphans for administrators. The next sweep carries out a stop or delete. */
import { msUntilDeleted, orphanHandlings, type Orphan, type OrphanPolicy } from '../../../domain/compute/orphan.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { confirmedOrphans, setOrphanHandling, orphanById } from '../../../store/tables/orphans.ts';
import { makeAdopt, orphanNotFound, type AdoptDeps, type OrphanRequest } from './adopt.ts';
import type { Caller } from '../../kernel/ports.ts';

type ListedFields =
  'kind' | 'regionId' | 'engineName' | 'subjectId' | 'ownerId' | 'imageRef' | 'running' | 'handling' | 'note';

export interface ListedOrphan extends Pick<Orphan, ListedFields> {
  strayId: string;
  /** Account on the label; '' when it is gone. */
  ownerName: string;
  createdAt: number;
  firstSeenAt: number;
  lastSeenAt: number;
  /** Time until the policy deletes it; null: never. */
  deletedInSeconds: number | null;
}

/** Resources on engines and storages without a row; for administrators. */
export interface Orphans {
  list(): Promise<ListedOrphan[]>;
  handle(caller: Caller, request: OrphanRequest): Promise<{ strayId: string; instanceId: string | null }>;
}

export interface OrphanDeps extends AdoptDeps {
  orphans: OrphanPolicy;
  sweepSoon: () => void;
}

export function makeOrphans(deps: OrphanDeps): Orphans {
  const { store, orphans: policy } = deps;
  const adopt = makeAdopt(deps);

  async function setHandling(caller: Caller, { strayId, action }: OrphanRequest, to: 'stop' | 'delete'): Promise<void> {
    const orphan = await orphanById(store.read, strayId);
    if (!orphan) throw orphanNotFound(strayId);
    if (to === 'stop' && orphan.kind !== 'instance' && orphan.kind !== 'docker')
      throw new Refusal(
        'unsupported',
        `${strayId} is an ${orphan.kind}, which cannot be stopped; ignore it, or delete it`,
      );
    const note = `${caller.username} requested: ${action}`;
    const written = await store.write((tx) => setOrphanHandling(tx, strayId, { from: orphanHandlings, to, note }));
    if (!written) throw orphanNotFound(strayId);
    deps.log.info(
      { orphan: strayId, action, by: caller.username },
      'an administrator requested an action on an orphan',
    );
    deps.sweepSoon();
  }

  return {
    async list() {
      const found = await confirmedOrphans(store.read);
      return found.map(({ orphan, ownerName }) => listed(orphan, ownerName, msUntilDeleted(orphan, policy)));
    },
    async handle(caller, request) {
      switch (request.action) {
        case 'adopt':
          return { strayId: request.strayId, instanceId: await adopt(caller, request) };
        case 'stop':
        case 'delete':
          await setHandling(caller, request, request.action);
          return { strayId: request.strayId, instanceId: null };
        default:
          return request.action satisfies never;
      }
    },
  };
}

const listed = (orphan: Orphan, ownerName: string, untilDeletedMs: number | null): ListedOrphan => ({
  strayId: orphan.id,
  kind: orphan.kind,
  regionId: orphan.regionId,
  engineName: orphan.engineName,
  subjectId: orphan.subjectId,
  ownerId: orphan.ownerId,
  ownerName,
  imageRef: orphan.imageRef,
  running: orphan.running,
  createdAt: orphan.createdAtMs,
  firstSeenAt: orphan.firstSeenAtMs,
  lastSeenAt: orphan.lastSeenAtMs,
  handling: orphan.handling,
  deletedInSeconds: untilDeletedMs === null ? null : Math.ceil(untilDeletedMs / 1000),
  note: orphan.note,
});
