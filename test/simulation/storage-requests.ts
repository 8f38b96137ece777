import type { Caller } from '../../src/control/index.ts';
import type { CopyRequest } from '../../src/control/storage/new-volume.ts';
import { sendRequest, type Request } from './client.ts';
import type { KnownDisk } from './model.ts';
import type { World } from './world.ts';

const idIn = (answer: unknown, member: 'volumeText' | 'snapshotText'): string | null => {
  const text: unknown = typeof answer === 'object' && answer !== null && Reflect.get(answer, member);
  if (typeof text !== 'string') return null;
  const { id }: { id?: string } = JSON.parse(text);
  return id ?? null;
};

export function expandVolume(world: World, caller: Caller, id: string, key: string | null, sizeGB: number): Request {
  return {
    text: `expand volume ${id} to ${sizeGB}`,
    caller,
    key,
    send: (control, idempotency) => control.volumes.expand(caller, { id, sizeGB }, idempotency),
    sent: () => {},
    answered(_, first) {
      const row = world.checker.volumes.get(id);
      const isLess = row !== undefined && row.sizeGB < sizeGB && JSON.parse(row.operation).state !== 'Failed';
      if (first && isLess) world.fail(`volume ${id} was to have ${sizeGB} GB, and has ${row.sizeGB}`);
    },
    refused: () => {},
  };
}

export function renameVolume(world: World, caller: Caller, id: string, key: string | null, name: string): Request {
  return {
    text: `rename volume ${id} to ${name}`,
    caller,
    key,
    send: (control, idempotency) => control.volumes.rename(caller, { id, name }, idempotency),
    sent: () => {},
    answered(answer) {
      if (idIn(answer, 'volumeText') !== id) world.fail(`a rename was answered with ${JSON.stringify(answer)}`);
    },
    refused: () => {},
  };
}

export function copyVolume(
  world: World,
  caller: Caller,
  from: 'volumes' | 'snapshots',
  key: string | null,
  request: CopyRequest,
): Request {
  return {
    text: `${request.name} of ${request.sizeGB ?? 'as many'} GB from ${from} ${request.id}`,
    caller,
    key,
    send: (control, idempotency) =>
      from === 'volumes'
        ? control.volumes.copy(caller, request, idempotency)
        : control.snapshots.restore(caller, request, idempotency),
    sent: () => {},
    answered(answer) {
      const id = idIn(answer, 'volumeText');
      if (id === null) return world.fail(`a copy was answered with ${JSON.stringify(answer)}`);
      world.model.isThere('volumes', id, caller.accountId);
      // Often deletes the copied disk soon, during the copy.
      if (!world.schedule.chance(0.3)) return;
      const gone = from === 'snapshots' ? deleteSnapshot : deleteVolume;
      sendRequest(world, gone(world, caller, request.id, null));
    },
    refused: () => {},
  };
}

export function createSnapshot(
  world: World,
  caller: Caller,
  volumeId: string,
  key: string | null,
  name: string,
): Request {
  return {
    text: `snapshot ${name} of ${volumeId}`,
    caller,
    key,
    send: (control, idempotency) => control.snapshots.create(caller, { volumeId, name }, idempotency),
    sent: () => {},
    answered(answer) {
      const id = idIn(answer, 'snapshotText');
      if (id === null) return world.fail(`a snapshot was answered with ${JSON.stringify(answer)}`);
      world.model.isThere('snapshots', id, caller.accountId);
    },
    refused: () => {},
  };
}

export function deleteSnapshot(world: World, caller: Caller, id: string, key: string | null): Request {
  return {
    text: `delete snapshot ${id}`,
    caller,
    key,
    send: (control, idempotency) => control.snapshots.delete(caller, { id }, idempotency),
    ...isGone(world.model.snapshots.get(id)),
  };
}

export function deleteVolume(world: World, caller: Caller, id: string, key: string | null): Request {
  return {
    text: `delete volume ${id}`,
    caller,
    key,
    send: (control, idempotency) => control.volumes.delete(caller, { id }, idempotency),
    ...isGone(world.model.volumes.get(id)),
  };
}

/**
 * Effect of a delete on the model: possible once sent, certain once answered, none once refused.
 */
function isGone(known: KnownDisk | undefined): Pick<Request, 'sent' | 'answered' | 'refused'> {
  return {
    sent: () => {
      if (known) known.maybeDeleted = true;
    },
    answered: () => {
      if (known) known.there = known.maybeDeleted = false;
    },
    refused: (refusal) => {
      if (known && refusal.code !== 'not_found') known.maybeDeleted = false;
    },
  };
}
