import type { Control } from '../../../control/index.ts';
import type { ListPages } from '../list-pages.ts';
import { isFilter, nothing, started, Started, type ClosedHandlers } from './handler.ts';

const startedVolume = ({ volumeText, operationId }: { volumeText: string; operationId?: string | undefined }) =>
  new Started(Buffer.from(`{"volume":${volumeText}}`), operationId);

export const storageHandlers = ({ volumes, snapshots, files }: Control, pages: ListPages) =>
  ({
    listVolumes: (caller, { body: { pager, ...filter } }) =>
      pages.answer({
        member: 'volumeList',
        caller,
        pager,
        isFiltered: isFilter(filter),
        read: () => volumes.list(caller, pager, isFilter(filter) ? filter : undefined),
      }),
    labelVolume: (caller, { body }) => volumes.setLabels(caller, body),
    createVolume: (caller, { body, idempotency }) => volumes.create(caller, body, idempotency).then(startedVolume),
    async getVolume(caller, { body }) {
      const { volumeText, snapshotTexts, ...rest } = await volumes.get(caller, body);
      const texts = `"volume":${volumeText},"snapshots":[${snapshotTexts.join(',')}]`;
      return Buffer.from(`{${texts},${JSON.stringify(rest).slice(1)}`);
    },
    async expandVolume(caller, { body, idempotency }) {
      const { volumeText, sizeLimit, operationId } = await volumes.expand(caller, body, idempotency);
      return new Started(Buffer.from(`{"volume":${volumeText},"sizeLimit":"${sizeLimit}"}`), operationId);
    },
    async renameVolume(caller, { body, idempotency }) {
      const { volumeText } = await volumes.rename(caller, body, idempotency);
      return Buffer.from(`{"volume":${volumeText}}`);
    },
    copyVolume: (caller, { body, idempotency }) => volumes.copy(caller, body, idempotency).then(startedVolume),
    deleteVolume: (caller, { body, idempotency }) => volumes.delete(caller, body, idempotency).then(started),
    async createSnapshot(caller, { body, idempotency }) {
      const { snapshotText, operationId } = await snapshots.create(caller, body, idempotency);
      return new Started(Buffer.from(`{"snapshot":${snapshotText}}`), operationId);
    },
    listSnapshots: (caller, { body: { pager } }) =>
      pages.answer({ member: 'snapshotList', caller, pager, read: () => snapshots.list(caller, pager) }),
    restoreSnapshot: (caller, { body, idempotency }) =>
      snapshots.restore(caller, body, idempotency).then(startedVolume),
    deleteSnapshot: (caller, { body, idempotency }) => snapshots.delete(caller, body, idempotency).then(started),
    async listFiles(caller, { body: { after = null, ...folder } }) {
      const { entries, next } = await files.list(caller, { ...folder, after });
      return {
        files: entries.map(({ modifiedAtMs, ...entry }) => ({ ...entry, modifiedAtUnixMs: modifiedAtMs })),
        next,
      };
    },
    createFolder: (caller, { body }) => files.makeFolder(caller, body).then(nothing),
  }) satisfies Partial<ClosedHandlers>;
