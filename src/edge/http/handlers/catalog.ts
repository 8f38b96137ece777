/** Catalog, regions, images, registries, and the administrator's orphans and tasks. */
import type { Control } from '../../../control/index.ts';
import { publicRegion } from '../../../domain/compute/public-instance.ts';
import { presentDrain } from '../presenters.ts';
import { nothing, started, type ClosedHandlers } from './handler.ts';

export const catalogHandlers = ({ catalog, images, registries, orphans, heldDisks, tasks }: Control) =>
  ({
    async catalog() {
      return { instanceInfos: await catalog.families() };
    },
    async listRegions() {
      const listed = await catalog.regions();
      return {
        regions: listed.map(({ region, drain, ...rest }) => ({
          ...publicRegion(region),
          ...rest,
          drain: presentDrain(drain),
        })),
      };
    },
    async listImages(caller, { body: { pager } }) {
      const listed = await images.list(caller, pager);
      return { images: listed.images, pager: { ...pager, totalEntries: listed.totalEntries } };
    },
    createImage: (caller, { body, idempotency }) => images.create(caller, body, idempotency),
    saveImage: (caller, { body, idempotency }) => images.save(caller, body, idempotency).then(started),
    deleteImage: (caller, { body, idempotency }) => images.delete(caller, body, idempotency).then(started),
    createRegistry: (caller, { body, idempotency }) => registries.create(caller, body, idempotency),
    listRegistries: (caller) => registries.list(caller),
    deleteRegistry: (caller, { body, idempotency }) => registries.delete(caller, body, idempotency).then(nothing),
    async listStrays() {
      return { strays: await orphans.list() };
    },
    handleStray: (caller, { body }) => orphans.handle(caller, body),
    listHeldDisks: async () => ({
      disks: (await heldDisks.list()).map(({ sinceMs, users, ...disk }) => ({
        ...disk,
        since: sinceMs,
        processes: [...users],
      })),
    }),
    listTasks: async () => ({
      tasks: (await tasks.list()).map(({ lastStartedAtMs, ...task }) => ({ ...task, lastStartedAt: lastStartedAtMs })),
    }),
  }) satisfies Partial<ClosedHandlers>;
