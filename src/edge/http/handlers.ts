/**
 * One handler for each JSON route: turns a validated body into a control call, and the result into
 * the route's answer. A handler returns an object, or bytes where control stores the JSON.
 */
import { DEFAULT_LOG_LINES } from '../../contract/log.ts';
import type { AnswerOf, BodyOf, JsonRouteName, OpenRouteName, OperationRouteName } from '../../contract/routes.ts';
import type { Caller, Control, Idempotency } from '../../control/index.ts';
import { publicRegion } from '../../domain/public-instance.ts';
import { accessCookie } from './credentials.ts';
import type { ListPages } from './list-pages.ts';
import {
  activityAnswer,
  commandOf,
  endsAnswer,
  execAnswer,
  fromOf,
  listedTerminal,
  metricsAnswer,
  publicLine,
  shareAnswer,
  stopPolicyOf,
} from './presenters.ts';

export type ClosedRouteName = Exclude<JsonRouteName, OpenRouteName>;

export interface HandlerInput<Name extends JsonRouteName> {
  body: BodyOf<Name>;
  idempotency: Idempotency | null;
  /** Longest wait for capacity; null: no wait. */
  waitMs: number | null;
  /** Address of the client. */
  from: string;
  /** Aborts when the client disconnects before the answer. */
  clientGone: () => AbortSignal;
  setHeader(name: string, value: string): void;
}

/** Answer with the operation it started; `mount` names the operation in a header. */
export class Started<Answer> {
  readonly answer: Answer;
  readonly operationId: string | undefined;

  constructor(answer: Answer, operationId: string | undefined) {
    this.answer = answer;
    this.operationId = operationId;
  }
}

const started = <Result extends { operationId?: string | undefined }>({ operationId, ...answer }: Result) =>
  new Started(answer, operationId);

const startedVolume = ({ volumeText, operationId }: { volumeText: string; operationId?: string | undefined }) =>
  new Started(Buffer.from(`{"volume":${volumeText}}`), operationId);

type Answer<Name extends JsonRouteName> = Name extends OperationRouteName
  ? Started<AnswerOf<Name> | Buffer>
  : AnswerOf<Name> | Buffer;
export type OpenHandlers = { [Name in OpenRouteName]: (input: HandlerInput<Name>) => Promise<Answer<Name>> };
export type ClosedHandlers = {
  [Name in ClosedRouteName]: (caller: Caller, input: HandlerInput<Name>) => Promise<Answer<Name>>;
};

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
  const { access, instances, volumes, snapshots, files, catalog, orphans, operations, tasks } = control;
  const { stopPolicies, ports, images, registries, metrics, logs, commands, terminals } = control;
  const open: OpenHandlers = {
    async login({ body, from, setHeader }) {
      const { accessToken, accessExpire } = await access.login(body, from);
      setHeader('set-cookie', accessCookie(accessToken, accessExpire, secureCookies));
      return { accessToken, accessExpire };
    },
  };
  const closed: ClosedHandlers = {
    launch: (caller, { body, idempotency, waitMs }) =>
      instances.launch(caller, body, idempotency, waitMs).then(started),
    listInstances: (caller, { body: { pager } }) =>
      pages.answer({ member: 'instances', caller, pager, read: () => instances.list(caller, pager) }),
    stop: (caller, { body, idempotency }) => instances.stop(caller, body, idempotency).then(started),
    start: (caller, { body, idempotency, waitMs }) => instances.start(caller, body, idempotency, waitMs).then(started),
    restart: (caller, { body, idempotency }) => instances.restart(caller, body, idempotency).then(started),
    archive: (caller, { body, idempotency }) => instances.archive(caller, body, idempotency).then(started),
    terminate: (caller, { body, idempotency }) => instances.terminate(caller, body, idempotency).then(started),
    expandDisk: (caller, { body: { instanceId, dataDiskGB, dockerStorageSize }, idempotency }) =>
      instances
        .expandDisk(caller, { instanceId, dataDiskGB, dockerStorageGB: dockerStorageSize }, idempotency)
        .then(started),
    open: (caller, { body }) => instances.open(caller, body),
    ends: async (caller, { body: { instanceId, ...wish } }) =>
      endsAnswer(await stopPolicies.set(caller, instanceId, stopPolicyOf(wish))),
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
    exec: async (caller, { body, clientGone }) =>
      execAnswer(body, await commands.run(caller, commandOf(body), clientGone())),
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
    cancelOperation: (caller, { body, idempotency }) => operations.cancel(caller, body, idempotency).then(started),

    listVolumes: (caller, { body: { pager } }) =>
      pages.answer({ member: 'volumeList', caller, pager, read: () => volumes.list(caller, pager) }),
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
    async createSnapshot(caller, { body, idempotency }) {
      const { snapshotText, operationId } = await snapshots.create(caller, body, idempotency);
      return new Started(Buffer.from(`{"snapshot":${snapshotText}}`), operationId);
    },
    listSnapshots: (caller, { body: { pager } }) =>
      pages.answer({ member: 'snapshotList', caller, pager, read: () => snapshots.list(caller, pager) }),
    restoreSnapshot: (caller, { body, idempotency }) =>
      snapshots.restore(caller, body, idempotency).then(startedVolume),
    deleteSnapshot: (caller, { body, idempotency }) => snapshots.delete(caller, body, idempotency).then(started),
    deleteVolume: (caller, { body, idempotency }) => volumes.delete(caller, body, idempotency).then(started),

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
    saveImage: (caller, { body, idempotency }) => images.save(caller, body, idempotency).then(started),
    deleteImage: (caller, { body, idempotency }) => images.delete(caller, body, idempotency).then(started),
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
    listTasks: async () => ({
      tasks: (await tasks.list()).map(({ lastStartedAtMs, ...task }) => ({ ...task, lastStartedAt: lastStartedAtMs })),
    }),
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
