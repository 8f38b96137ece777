/**
 * One handler per route of the table; a forgotten one does not compile. A handler turns a validated body into one question to
 * control, and control's answer into the route's. It answers an object, or the bytes where control has the JSON already.
 */
import { DEFAULT_LOG_LINES } from '../../contract/log.ts';
import { OPERATION_HEADER } from '../../contract/operation.ts';
import type { AnswerOf, BodyOf, RouteName, routes } from '../../contract/routes.ts';
import type { Caller, Control, Idempotency, StartedOperation, ShareInfo } from '../../control/index.ts';
import { publicRegion } from '../../domain/public-instance.ts';
import { accessCookie } from './credentials.ts';
import { activityAnswer, endsAnswer, endsWish } from './ends-answers.ts';
import { fromOf, publicLine } from './log-answers.ts';
import { commandOf, execAnswer, listedTerminal } from './exec-answers.ts';
import { metricsAnswer } from './metrics-answer.ts';
import type { ListPages } from './list-pages.ts';

const shareAnswer = ({ createdAtMs, expiresAtMs, ...share }: ShareInfo): AnswerOf<'listShares'>['shares'][number] => ({
  ...share,
  createdAtUnixMs: createdAtMs,
  expiresAtUnixMs: expiresAtMs,
});

type NamesFor<Who> = { [Name in RouteName]: (typeof routes)[Name]['who'] extends Who ? Name : never }[RouteName];
/** Routes that need no login, and all the others. */
export type OpenRoute = NamesFor<'anyone'>;
export type ClosedRoute = Exclude<RouteName, OpenRoute>;

interface Asked<Name extends RouteName> {
  body: BodyOf<Name>;
  idempotency: Idempotency | null;
  /** How long it waits in line for room; null: not at all. */
  waitMs: number | null;
  /** The client's address. */
  from: string;
  /** Aborts when the caller has left. */
  gone: () => AbortSignal;
  setHeader(name: string, value: string): void;
}

type SetHeader = Asked<RouteName>['setHeader'];

function nameOperation(setHeader: SetHeader, id: string | undefined): void {
  if (id !== undefined) setHeader(OPERATION_HEADER, id);
}

/** The operation of an action goes into its header: the body stays as the interface fixes it. */
const naming =
  (setHeader: SetHeader) =>
  ({ instanceId, operationId: id }: { instanceId: string } & StartedOperation): { instanceId: string } => {
    nameOperation(setHeader, id);
    return { instanceId };
  };

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
  const { access, instances, volumes, snapshots, files, catalog, orphans, operations } = control;
  const { stopPolicies, ports, images, registries, metrics, logs, commands, terminals } = control;
  const open: OpenHandlers = {
    async login({ body, from, setHeader }) {
      const { accessToken, accessExpire } = await access.login(body, from);
      setHeader('set-cookie', accessCookie(accessToken, accessExpire, secureCookies));
      return { accessToken, accessExpire };
    },
  };
  const closed: ClosedHandlers = {
    launch: (caller, { body, idempotency, waitMs, setHeader }) =>
      instances.launch(caller, body, idempotency, waitMs).then(naming(setHeader)),
    listInstances: (caller, { body: { pager } }) =>
      pages.answer({ member: 'instances', caller, pager, read: () => instances.list(caller, pager) }),
    stop: (caller, { body, idempotency, setHeader }) =>
      instances.stop(caller, body, idempotency).then(naming(setHeader)),
    start: (caller, { body, idempotency, waitMs, setHeader }) =>
      instances.start(caller, body, idempotency, waitMs).then(naming(setHeader)),
    restart: (caller, { body, idempotency, setHeader }) =>
      instances.restart(caller, body, idempotency).then(naming(setHeader)),
    archive: (caller, { body, idempotency, setHeader }) =>
      instances.archive(caller, body, idempotency).then(naming(setHeader)),
    terminate: (caller, { body, idempotency, setHeader }) =>
      instances.terminate(caller, body, idempotency).then(naming(setHeader)),
    expandDisk: (caller, { body: { instanceId, dataDiskGB, dockerStorageSize }, idempotency, setHeader }) =>
      instances
        .expandDisk(caller, { instanceId, dataDiskGB, dockerStorageGB: dockerStorageSize }, idempotency)
        .then(naming(setHeader)),
    open: (caller, { body }) => instances.open(caller, body),
    ends: async (caller, { body: { instanceId, ...wish } }) =>
      endsAnswer(await stopPolicies.set(caller, instanceId, endsWish(wish))),
    async keepAlive(caller, { body: { instanceId, minutes } }) {
      const { keepAliveUntilMs } = await stopPolicies.keepAlive(caller, instanceId, minutes * 60_000);
      return { instanceId, keepAliveUntilUnixMs: keepAliveUntilMs };
    },
    activity: async (caller, { body: { instanceId } }) =>
      activityAnswer(instanceId, await stopPolicies.idleStatus(caller, instanceId)),
    async setPortAccess(caller, { body }) {
      return { instanceId: body.instanceId, port: await ports.setAccess(caller, body) };
    },
    async listPorts(caller, { body: { instanceId } }) {
      return { instanceId, ports: await ports.list(caller, instanceId) };
    },
    async sharePort(caller, { body: { seconds, name = '', ...at }, idempotency }) {
      const { url, token, ...share } = await ports.share(caller, { ...at, forMs: seconds * 1_000, name }, idempotency);
      return { ...shareAnswer(share), url, token };
    },
    async listShares(caller, { body: { instanceId } }) {
      return { shares: (await ports.shares(caller, instanceId)).map(shareAnswer) };
    },
    async unsharePort(caller, { body, idempotency }) {
      await ports.unshare(caller, body, idempotency);
      return {};
    },
    exec: async (caller, { body, gone }) => execAnswer(body, await commands.run(caller, commandOf(body), gone())),
    async listTerminals(caller, { body: { instanceId } }) {
      return { terminals: (await terminals.list(caller, instanceId)).map(listedTerminal) };
    },
    async closeTerminal(caller, { body: { instanceId, terminal } }) {
      await terminals.close(caller, { instanceId, name: terminal });
      return {};
    },
    async metrics(caller, { body: { instanceId, fromUnixMs, toUnixMs, stepSeconds } }) {
      const stepMs = stepSeconds === undefined ? undefined : stepSeconds * 1000;
      const wish = { fromMs: fromUnixMs, toMs: toUnixMs, stepMs };
      return metricsAnswer(instanceId, await metrics.read(caller, instanceId, wish));
    },
    async logs(caller, { body: { instanceId, source, untilUnixMs: untilMs, limit = DEFAULT_LOG_LINES, ...where } }) {
      const atMost = where.tail ?? limit;
      const page = await logs.read(caller, { instanceId, source, from: fromOf(where), untilMs, limit: atMost });
      return { instanceId, source, ...page, lines: page.lines.map(publicLine) };
    },
    async getInstance(caller, { body }) {
      const { instanceText, ...rest } = await instances.get(caller, body);
      return Buffer.from(`{"instance":${instanceText},${JSON.stringify(rest).slice(1)}`);
    },

    getOperation: async (caller, { body }) => ({ operation: await operations.read(caller, body) }),
    async listOperations(caller, { body: { pager, ...subject } }) {
      const listed = await operations.list(caller, subject, pager);
      return { operations: listed.operations, pager: { ...pager, totalEntries: listed.totalEntries } };
    },
    async cancelOperation(caller, { body, idempotency, setHeader }) {
      const { operation, operationId: wished } = await operations.cancel(caller, body, idempotency);
      nameOperation(setHeader, wished);
      return { operation };
    },

    listVolumes: (caller, { body: { pager } }) =>
      pages.answer({ member: 'volumeList', caller, pager, read: () => volumes.list(caller, pager) }),
    async createVolume(caller, { body, idempotency, setHeader }) {
      const { volumeText, operationId: id } = await volumes.create(caller, body, idempotency);
      nameOperation(setHeader, id);
      return Buffer.from(`{"volume":${volumeText}}`);
    },
    async getVolume(caller, { body }) {
      const { volumeText, snapshotTexts, ...rest } = await volumes.get(caller, body);
      const texts = `"volume":${volumeText},"snapshots":[${snapshotTexts.join(',')}]`;
      return Buffer.from(`{${texts},${JSON.stringify(rest).slice(1)}`);
    },
    async expandVolume(caller, { body, idempotency, setHeader }) {
      const { volumeText, sizeLimit, operationId: id } = await volumes.expand(caller, body, idempotency);
      nameOperation(setHeader, id);
      return Buffer.from(`{"volume":${volumeText},"sizeLimit":"${sizeLimit}"}`);
    },
    async renameVolume(caller, { body, idempotency }) {
      const { volumeText } = await volumes.rename(caller, body, idempotency);
      return Buffer.from(`{"volume":${volumeText}}`);
    },
    async copyVolume(caller, { body, idempotency, setHeader }) {
      const { volumeText, operationId: id } = await volumes.copy(caller, body, idempotency);
      nameOperation(setHeader, id);
      return Buffer.from(`{"volume":${volumeText}}`);
    },
    async createSnapshot(caller, { body, idempotency, setHeader }) {
      const { snapshotText, operationId: id } = await snapshots.create(caller, body, idempotency);
      nameOperation(setHeader, id);
      return Buffer.from(`{"snapshot":${snapshotText}}`);
    },
    listSnapshots: (caller, { body: { pager } }) =>
      pages.answer({ member: 'snapshotList', caller, pager, read: () => snapshots.list(caller, pager) }),
    async restoreSnapshot(caller, { body, idempotency, setHeader }) {
      const { volumeText, operationId: id } = await snapshots.restore(caller, body, idempotency);
      nameOperation(setHeader, id);
      return Buffer.from(`{"volume":${volumeText}}`);
    },
    async deleteSnapshot(caller, { body, idempotency, setHeader }) {
      const { id, operationId: wished } = await snapshots.delete(caller, body, idempotency);
      nameOperation(setHeader, wished);
      return { id };
    },
    async deleteVolume(caller, { body, idempotency, setHeader }) {
      const { id, operationId: wished } = await volumes.delete(caller, body, idempotency);
      nameOperation(setHeader, wished);
      return { id };
    },

    async listFiles(caller, { body: { after = null, ...asked } }) {
      const { entries, next } = await files.list(caller, { ...asked, after });
      return {
        files: entries.map(({ modifiedAtMs, ...entry }) => ({ ...entry, modifiedAtUnixMs: modifiedAtMs })),
        next,
      };
    },
    async createFolder(caller, { body }) {
      await files.makeFolder(caller, body);
      return {};
    },

    async catalog() {
      return { instanceInfos: await catalog.families() };
    },
    async listImages(caller, { body: { pager } }) {
      const listed = await images.list(caller, pager);
      return { images: listed.images, pager: { ...pager, totalEntries: listed.totalEntries } };
    },
    createImage: (caller, { body, idempotency }) => images.create(caller, body, idempotency),
    async saveImage(caller, { body, idempotency, setHeader }) {
      const { imageId, operationId: id } = await images.save(caller, body, idempotency);
      nameOperation(setHeader, id);
      return { imageId };
    },
    async deleteImage(caller, { body, idempotency, setHeader }) {
      const { imageId, operationId: id } = await images.delete(caller, body, idempotency);
      nameOperation(setHeader, id);
      return { imageId };
    },
    createRegistry: (caller, { body, idempotency }) => registries.create(caller, body, idempotency),
    listRegistries: (caller) => registries.list(caller),
    async deleteRegistry(caller, { body, idempotency }) {
      await registries.delete(caller, body, idempotency);
      return {};
    },
    async listRegions() {
      const listed = await catalog.regions();
      return {
        regions: listed.map(({ region, ...rest }) => ({ ...publicRegion(region), ...rest })),
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

    async listStrays() {
      return { strays: await orphans.list() };
    },
    handleStray: (caller, { body }) => orphans.handle(caller, body),

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
    async listSessions(caller) {
      const sessions = await access.listSessions(caller);
      return {
        sessions: sessions.map(({ openedAtMs, lastUsedAtMs, ...session }) => ({
          ...session,
          openedAtUnixMs: openedAtMs,
          lastUsedAtUnixMs: lastUsedAtMs,
        })),
      };
    },
    async revokeSession(caller, { body, idempotency }) {
      await access.revokeSession(caller, body, idempotency);
      return {};
    },
    balance: (caller) => access.balance(caller),
  };
  return { open, closed };
}
