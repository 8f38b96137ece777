/** Volumes, snapshots and files. Control keeps the JSON of volumes and snapshots. */
import type { Control } from '../../../control/index.ts';
import { isFilter, presented, StartedText, type Handlers } from '../handler.ts';
import type { ListPages } from '../list-pages.ts';

interface StoredVolume {
  volumeText: string;
  operationId?: string | undefined;
}

const startedVolume = ({ volumeText, operationId }: StoredVolume) =>
  new StartedText(`{"volume":${volumeText}}`, operationId);

export const storageHandlers = ({ volumes, snapshots, files, heldDisks }: Control, pages: ListPages) =>
  ({
    listVolumes: (caller, { pager, ...filter }) =>
      pages.answer({
        member: 'volumeList',
        caller,
        pager,
        isFiltered: isFilter(filter),
        read: () => volumes.list(caller, pager, isFilter(filter) ? filter : undefined),
      }),
    labelVolume: volumes.setLabels,
    createVolume: presented(volumes.create, startedVolume),
    getVolume: presented(volumes.get, ({ volumeText, snapshotTexts, ...rest }) => {
      const texts = `"volume":${volumeText},"snapshots":[${snapshotTexts.join(',')}]`;
      return Buffer.from(`{${texts},${JSON.stringify(rest).slice(1)}`);
    }),
    expandVolume: presented(
      volumes.expand,
      ({ volumeText, sizeLimit, operationId }) =>
        new StartedText(`{"volume":${volumeText},"sizeLimit":"${sizeLimit}"}`, operationId),
    ),
    renameVolume: presented(volumes.rename, (volume) => startedVolume(volume).bytes),
    copyVolume: presented(volumes.copy, startedVolume),
    deleteVolume: volumes.delete,
    createSnapshot: presented(
      snapshots.create,
      ({ snapshotText, operationId }) => new StartedText(`{"snapshot":${snapshotText}}`, operationId),
    ),
    listSnapshots: (caller, { pager }) =>
      pages.answer({ member: 'snapshotList', caller, pager, read: () => snapshots.list(caller, pager) }),
    restoreSnapshot: presented(snapshots.restore, startedVolume),
    deleteSnapshot: snapshots.delete,
    listFiles: files.list,
    createFolder: files.makeFolder,
    listHeldDisks: async () => ({ disks: await heldDisks.list() }),
  }) satisfies Partial<Handlers['closed']>;
