import type { Access, Caller, Control, Forwarding } from '../../../src/control/index.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';

export const GOOD_TOKEN = 'good';
export const ADMIN_TOKEN = 'good-admin';

export const fakeCaller: Caller = {
  accountId: 'account-1',
  username: 'alice',
  email: 'alice@example.org',
  roles: ['user'],
  sessionId: 'session-1',
  scopes: null,
};

type Parts = { [Part in keyof Control]?: Control[Part] extends object ? Partial<Control[Part]> : never };

type Ask = (name: string) => () => unknown;

/** A control that has what is given; `ask` makes the others, which throw by default. */
export function fakeControl(
  given: Parts & { versionOf?: Control['versionOf']; health?: Control['health']; refuseIfFull?: () => void } = {},
  ask?: Ask,
): Control {
  const part = <Part extends object>(own: Partial<Part>): Part => completed<Part>(own, ask ?? unasked);
  const streams: Partial<Control> = {
    events: part<Control['events']>({ follow: unaskedStream, ...given.events }),
    logs: part<Control['logs']>({ follow: unaskedStream, all: unaskedStream, ...given.logs }),
  };
  const own: Partial<Control> = {
    access: part<Access>({ authenticate, secondFactors: part<Access['secondFactors']>({}), ...given.access }),
    accounts: part<Control['accounts']>({ registers: () => false, ...given.accounts }),
    audit: part<Control['audit']>({ record: async () => {}, ...given.audit }),
    quotas: part<Control['quotas']>({ requestsPerSecond: () => 1_000_000, ...given.quotas }),
    forwarding: part<Forwarding>({ beginTraffic: () => () => {}, onRevoked: () => () => {}, ...given.forwarding }),
    versionOf: given.versionOf ?? (async () => 1),
    refuseIfFull: given.refuseIfFull ?? (() => {}),
    health: given.health ?? (async () => ({ ready: true, isDegraded: false, text: 'the fake is well' })),
    ...(ask === undefined ? streams : {}),
  };
  return completed<Control>(own, (name) => {
    const asked: unknown = Reflect.get(given, name);
    return part(typeof asked === 'object' && asked !== null ? asked : {});
  });
}

function completed<Whole extends object>(own: Partial<Whole>, missing: (name: string) => unknown): Whole;
function completed(own: object, missing: (name: string) => unknown): object {
  return new Proxy(own, { get: (_, name) => Reflect.get(own, name) ?? missing(String(name)) });
}

const unasked: Ask = (name) => async () => {
  throw new Error(`the test did not expect control to be asked "${name}"`);
};

// oxlint-disable-next-line require-yield -- it only throws
async function* unaskedStream(): AsyncGenerator<never, void> {
  throw new Error('the test did not expect control to be asked for a stream');
}

const authenticate: Access['authenticate'] = async (credential) => {
  const text = credential.kind === 'token' ? credential.token : credential.key;
  if (text === GOOD_TOKEN) return fakeCaller;
  if (text === ADMIN_TOKEN) return { ...fakeCaller, roles: ['admin'] };
  throw new Refusal('not_logged_in', 'log in again');
};
