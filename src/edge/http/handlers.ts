/**
 * One handler per route of the table; a forgotten one does not compile. A handler turns a validated body into one question to
 * control, and control's answer into the route's. It answers an object, or the bytes where control has the JSON already.
 */
import type { AnswerOf, BodyOf, RouteName, routes } from '../../contract/routes.ts';
import type { Caller, Control, Idempotency } from '../../control/control.ts';
import { publicRegion } from '../../domain/public-instance.ts';
import { accessCookie } from './credentials.ts';
import type { ListPages } from './list-pages.ts';

type NamesFor<Who> = { [Name in RouteName]: (typeof routes)[Name]['who'] extends Who ? Name : never }[RouteName];
/** Routes that need no login, and all the others. */
export type OpenRoute = NamesFor<'anyone'>;
export type ClosedRoute = Exclude<RouteName, OpenRoute>;

interface Asked<Name extends RouteName> {
  body: BodyOf<Name>;
  idempotency: Idempotency | null;
  /** The client's address. */
  from: string;
  setHeader(name: string, value: string): void;
}

type Answer<Name extends RouteName> = Promise<AnswerOf<Name> | Buffer>;
export type OpenHandlers = { [Name in OpenRoute]: (asked: Asked<Name>) => Answer<Name> };
export type ClosedHandlers = { [Name in ClosedRoute]: (caller: Caller, asked: Asked<Name>) => Answer<Name> };

export interface Handlers {
  open: OpenHandlers;
  closed: ClosedHandlers;
}

export function makeHandlers({
  control,
  pages,
  secureCookies,
}: {
  control: Control;
  pages: ListPages;
  secureCookies: boolean;
}): Handlers {
  const { access, instances, volumes, catalog } = control;
  const open: OpenHandlers = {
    async login({ body, from, setHeader }) {
      const { accessToken, accessExpire } = await access.login(body, from);
      setHeader('set-cookie', accessCookie(accessToken, accessExpire, secureCookies));
      return { accessToken, accessExpire };
    },
  };
  const closed: ClosedHandlers = {
    launch: (caller, { body, idempotency }) => instances.launch(caller, body, idempotency),
    listInstances: (caller, { body: { pager } }) =>
      pages.answer({ member: 'instances', caller, pager, read: () => instances.list(caller, pager) }),
    stop: (caller, { body, idempotency }) => instances.stop(caller, body, idempotency),
    start: (caller, { body, idempotency }) => instances.start(caller, body, idempotency),
    restart: (caller, { body, idempotency }) => instances.restart(caller, body, idempotency),
    archive: (caller, { body, idempotency }) => instances.archive(caller, body, idempotency),
    terminate: (caller, { body, idempotency }) => instances.terminate(caller, body, idempotency),
    open: (caller, { body }) => instances.open(caller, body),

    listVolumes: (caller, { body: { pager } }) =>
      pages.answer({ member: 'volumeList', caller, pager, read: () => volumes.list(caller, pager) }),
    async createVolume(caller, { body, idempotency }) {
      const { volumeText } = await volumes.create(caller, body, idempotency);
      return Buffer.from(`{"volume":${volumeText}}`);
    },
    deleteVolume: (caller, { body, idempotency }) => volumes.delete(caller, body, idempotency),

    async catalog() {
      return { instanceInfos: await catalog.families() };
    },
    async listImages(_caller, { body: { pager } }) {
      const { images, totalEntries } = await catalog.images(pager);
      return { images, pager: { ...pager, totalEntries } };
    },
    async listRegions() {
      const listed = await catalog.regions();
      return {
        regions: listed.map(({ region, engine, capabilities }) => ({ ...publicRegion(region), engine, capabilities })),
      };
    },

    async logout(caller, { setHeader }) {
      await access.logout(caller);
      setHeader('set-cookie', accessCookie('', 0, secureCookies));
      return {};
    },
    async changePassword(caller, { body, setHeader }) {
      await access.changePassword(caller, body);
      setHeader('set-cookie', accessCookie('', 0, secureCookies));
      return {};
    },
    async userInfo({ accountId, username, email, roles }) {
      return { userId: accountId, username, email, group: [...roles] };
    },
    createUser: (caller, { body, idempotency }) => access.createUser(caller, body, idempotency),

    createApiKey: (caller, { body, idempotency }) => access.createApiKey(caller, body, idempotency),
    listApiKeys: (caller) => access.listApiKeys(caller),
    async deleteApiKey(caller, { body, idempotency }) {
      await access.deleteApiKey(caller, body, idempotency);
      return {};
    },
    createSshKey: (caller, { body, idempotency }) => access.createSshKey(caller, body, idempotency),
    listSshKeys: (caller) => access.listSshKeys(caller),
    async deleteSshKey(caller, { body, idempotency }) {
      await access.deleteSshKey(caller, body, idempotency);
      return {};
    },
    balance: (caller) => access.balance(caller),
  };
  return { open, closed };
}
