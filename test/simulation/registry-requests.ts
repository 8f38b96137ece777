import type { Caller } from '../../src/control/index.ts';
import type { Request } from './client.ts';
import type { World } from './world.ts';

/** A private, a public and a missing image. */
const refs = ['private.invalid/own:1', 'berth.local/own:1', 'missing.invalid/own:1'];

const idsOf = (world: World, table: string, owner: string, ownerId: string, more = ''): string[] =>
  world.server
    ? world.checker
        .rows<{ id: string }>(`select id from ${table} where "${owner}" = ? ${more}`, ownerId)
        .map(({ id }) => id)
    : [];

export const registeredImages = (world: World, ownerId: string): string[] =>
  idsOf(world, 'image', 'ownerId', ownerId, 'and "fromInstanceId" is null');

const is = (world: World, table: string, id: string): boolean =>
  world.checker.rows(`select id from ${table} where id = ?`, id).length > 0;

const member = (answer: unknown, name: string): unknown =>
  typeof answer === 'object' && answer !== null
    ? new Map<string, unknown>(Object.entries(answer)).get(name)
    : undefined;

/** Creates an object; its answer contains the id. */
function made(
  world: World,
  request: Omit<Request, 'sent' | 'answered' | 'refused'>,
  table: string,
  idOf: (answer: unknown) => unknown,
): Request {
  return {
    ...request,
    sent: () => {},
    answered(answer, first) {
      const id = idOf(answer);
      if (typeof id !== 'string') world.fail(`${request.text} was answered with ${JSON.stringify(answer)}`);
      else if (first && !is(world, table, id))
        world.fail(`${request.text} was acknowledged, and ${id} is not in the database`);
    },
    refused: () => {},
  };
}

function removed(
  world: World,
  request: Omit<Request, 'sent' | 'answered' | 'refused'>,
  table: string,
  id: string,
): Request {
  return {
    ...request,
    sent: () => {},
    answered() {
      if (is(world, table, id)) world.fail(`${request.text} was acknowledged, and it is there`);
    },
    refused: () => {},
  };
}

export function drawFromRegistry(world: World, caller: Caller): Request {
  const { schedule } = world;
  const serial = schedule.uuid().slice(0, 8);
  const base = { caller, key: schedule.chance(0.5) ? `r${serial}` : null };
  const images = registeredImages(world, caller.accountId);
  const credentials = idsOf(world, 'registryCredential', 'accountId', caller.accountId);
  const [image] = images;
  const [credential] = credentials;
  const action = schedule.between(0, 3);
  if (action === 0 && image !== undefined)
    return removed(
      world,
      {
        ...base,
        text: `delete the registered image ${image}`,
        send: (control, idempotency) => control.images.delete(caller, { imageId: image }, idempotency),
      },
      'image',
      image,
    );
  if (action === 1 && credential !== undefined)
    return removed(
      world,
      {
        ...base,
        text: `delete credentials ${credential}`,
        send: (control, idempotency) => control.registries.delete(caller, { id: credential }, idempotency),
      },
      'registryCredential',
      credential,
    );
  if (action >= 2) {
    const secret = schedule.chance(0.7) ? 'right' : 'wrong';
    const body = { server: 'private.invalid', username: caller.username, secret };
    const send: Request['send'] = (control, idempotency) => control.registries.create(caller, body, idempotency);
    const idOf = (answer: unknown): unknown => member(member(answer, 'registry'), 'id');
    return made(world, { ...base, text: `create credentials ${serial}`, send }, 'registryCredential', idOf);
  }
  const body = { name: `own ${serial}`, ref: schedule.oneOf(refs) };
  const send: Request['send'] = (control, idempotency) => control.images.create(caller, body, idempotency);
  return made(world, { ...base, text: `create image ${body.ref} ${serial}`, send }, 'image', (answer) =>
    member(answer, 'imageId'),
  );
}
