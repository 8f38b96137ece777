import type { Control } from '../../../control/index.ts';
import { presentDrain, presentFleetRegion } from '../presenters.ts';
import type { ListPages } from '../list-pages.ts';
import type { ClosedHandlers } from './handler.ts';

type Page = Awaited<ReturnType<Control['operator']['volumes']>>;

const owned = (member: string, { rows, totalEntries }: Page) => ({
  texts: rows.map(
    ({ ownerId, ownerName, publicText }) =>
      `${JSON.stringify({ accountId: ownerId, username: ownerName }).slice(0, -1)},"${member}":${publicText}}`,
  ),
  totalEntries,
});

const idOnly = ({ instanceId }: { instanceId: string }) => ({ instanceId });

export const operatorHandlers = ({ operator, egress, fleet }: Control, pages: ListPages) =>
  ({
    fleet: async () => ({ regions: (await fleet.read()).map(presentFleetRegion) }),
    listAllInstances: (caller, { body: { pager, ...request } }) =>
      pages.answer({
        member: 'instances',
        caller,
        pager,
        isFiltered: true,
        read: async () => owned('instance', await operator.instances(request, pager)),
      }),
    listAllVolumes: (caller, { body: { pager, ...request } }) =>
      pages.answer({
        member: 'volumes',
        caller,
        pager,
        isFiltered: true,
        read: async () => owned('volume', await operator.volumes(request, pager)),
      }),
    async getAnyInstance(_caller, { body: { instanceId } }) {
      const { owner, instanceText, startCommand: _secret, ...rest } = await operator.instance(instanceId);
      const text = JSON.stringify({ accountId: owner.id, username: owner.name, ...rest });
      return Buffer.from(`{"instance":${instanceText},${text.slice(1)}`);
    },
    stopAnyInstance: (caller, { body, idempotency }) => operator.stop(caller, body, idempotency).then(idOnly),
    startAnyInstance: (caller, { body, idempotency, waitMs }) =>
      operator.start(caller, body, idempotency, waitMs).then(idOnly),
    terminateAnyInstance: (caller, { body, idempotency }) => operator.terminate(caller, body, idempotency).then(idOnly),
    getEgress: (_caller, { body }) => egress.get(body),
    setEgress: (caller, { body, idempotency }) => egress.set(caller, body, idempotency),
    async drainRegion(caller, { body: { stopRunningAfterMinutes: minutes, ...body }, idempotency }) {
      const request = { ...body, stopRunningAfterMs: minutes === undefined ? undefined : minutes * 60_000 };
      const { regionId, drain } = await operator.drain(caller, request, idempotency);
      return { regionId, drain: presentDrain(drain) };
    },
  }) satisfies Partial<ClosedHandlers>;
