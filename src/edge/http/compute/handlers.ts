/** Instances, their insides and their stops; orphans. */
import { DEFAULT_LOG_LINES } from '../../../contract/compute/log.ts';
import { MAX_OUTPUT_BYTES } from '../../../contract/compute/exec.ts';
import type { AnswerOf, BodyOf } from '../../../contract/routes.ts';
import type { Commands, Control, IdleStatus, InstanceStopPolicy } from '../../../control/index.ts';
import { idlePolicy } from '../../../domain/compute/idle.ts';
import type { StopPolicyRequest } from '../../../domain/compute/stop-policy.ts';
import { MINUTE_MS } from '../../../domain/kernel/durations.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { isFilter, presented, type Handlers } from '../handler.ts';
import type { ListPages } from '../list-pages.ts';
import { fromOf, presentLogLine } from './log-lines.ts';
import { presentMetrics } from './metrics.ts';

const UNLESS =
  'the instance is used again, /instance/keepalive is called, or the idle stop is removed (/instance/ends, idleStop: null)';

function stopPolicyOf(body: Omit<BodyOf<'ends'>, 'instanceId'>): StopPolicyRequest {
  const { stopAtUnixMs, maxRunMinutes, idleStop } = body;
  const { afterMinutes = 0, ...rules } = idleStop ?? {};
  const given = Object.fromEntries(Object.entries(rules).filter(([, value]) => value !== undefined));
  return {
    stopAtMs: stopAtUnixMs,
    maxRunMs: typeof maxRunMinutes === 'number' ? maxRunMinutes * MINUTE_MS : maxRunMinutes,
    idle: idleStop && idlePolicy(afterMinutes * MINUTE_MS, given),
  };
}

const presentStopPolicy = ({
  instanceId,
  stopAtMs,
  maxRunMs,
  idle,
  ...times
}: InstanceStopPolicy): AnswerOf<'ends'> => ({
  instanceId,
  stopAtUnixMs: stopAtMs,
  maxRunMinutes: maxRunMs === null ? null : maxRunMs / MINUTE_MS,
  idleStop: idle && {
    afterMinutes: idle.afterMs / MINUTE_MS,
    ignore: idle.ignore,
    cpuPercent: idle.cpuPercent,
    gpuPercent: idle.gpuPercent,
  },
  keepAliveUntilUnixMs: times.keepAliveUntilMs,
  endsAtUnixMs: times.endsAtMs,
});

const presentIdleStatus = (
  instanceId: string,
  { state, because, idleSinceMs, willStopAtMs, checkedAtMs, signals }: IdleStatus,
): AnswerOf<'activity'> => ({
  instanceId,
  state,
  because,
  idleSinceUnixMs: idleSinceMs,
  willStopAtUnixMs: willStopAtMs,
  unless: state === 'idle' ? UNLESS : '',
  lookedAtUnixMs: checkedAtMs,
  signals: signals.map(({ name, says, text, atMs }) => ({ name, says, text, readAtUnixMs: atMs === 0 ? null : atMs })),
});

type Run = Commands['run'];

function commandOf({ stdin, encoding, timeoutSeconds, ...command }: BodyOf<'exec'>): Parameters<Run>[1] {
  return {
    ...command,
    stdin: bytesOf(stdin, encoding),
    limitMs: timeoutSeconds * 1_000,
    maxOutputBytes: MAX_OUTPUT_BYTES,
  };
}

function bytesOf(text: string, encoding: BodyOf<'exec'>['encoding']): Buffer {
  const bytes = Buffer.from(text, encoding);
  // Node skips invalid base64 and would return other bytes.
  if (encoding === 'base64' && bytes.toString('base64') !== text)
    throw new Refusal('field_value', 'field "stdin" must be base64 with its padding, as the field "encoding" says');
  return bytes;
}

function presentCommandResult(
  { encoding }: Pick<BodyOf<'exec'>, 'encoding'>,
  { exitCode, stdout, stderr, timedOut }: Awaited<ReturnType<Run>>,
): AnswerOf<'exec'> {
  return {
    exitCode,
    stdout: stdout.bytes.toString(encoding),
    stderr: stderr.bytes.toString(encoding),
    stdoutCut: stdout.cut,
    stderrCut: stderr.cut,
    timedOut,
  };
}

type OwnedPage = Awaited<ReturnType<Control['operator']['volumes']>>;

const owned = (member: string, { rows, totalEntries }: OwnedPage) => ({
  texts: rows.map(
    ({ ownerId, ownerName, publicText }) =>
      `${JSON.stringify({ accountId: ownerId, username: ownerName }).slice(0, -1)},"${member}":${publicText}}`,
  ),
  totalEntries,
});

const idOnly = ({ instanceId }: { instanceId: string }) => ({ instanceId });

/** Waits for capacity, and commands, which end with the client. */
export const waitingHandlers = ({ instances, operator, commands }: Control) =>
  ({
    launch: (caller, { body, idempotency, waitMs, quoteId }) =>
      instances.launch(caller, body, idempotency, waitMs, quoteId),
    start: (caller, { body, idempotency, waitMs }) => instances.start(caller, body, idempotency, waitMs),
    startAnyInstance: (caller, { body, idempotency, waitMs }) =>
      operator.start(caller, body, idempotency, waitMs).then(idOnly),
    exec: async (caller, { body, clientGone }) =>
      presentCommandResult(body, await commands.run(caller, commandOf(body), clientGone())),
  }) satisfies Partial<Handlers['ofRequest']>;

export const computeHandlers = (control: Control, pages: ListPages) =>
  ({
    ...instanceHandlers(control, pages),
    ...insideHandlers(control),
    ...operatorHandlers(control, pages),
    ...environmentHandlers(control),
  }) satisfies Partial<Handlers['closed']>;

const instanceHandlers = (
  { instances, quotes, stopPolicies, operations, templates, wakes }: Control,
  pages: ListPages,
) =>
  ({
    quote: presented(quotes.quote, (quote) => ({ quote })),
    listInstances: (caller, { pager, ...filter }) =>
      pages.answer({
        member: 'instances',
        caller,
        pager,
        isFiltered: isFilter(filter),
        read: () => instances.list(caller, pager, isFilter(filter) ? filter : undefined),
      }),
    async getInstance(caller, body) {
      const { instanceText, ...rest } = await instances.get(caller, body);
      return Buffer.from(`{"instance":${instanceText},${JSON.stringify(rest).slice(1)}`);
    },
    stop: instances.stop,
    restart: instances.restart,
    archive: instances.archive,
    terminate: instances.terminate,
    updateInstance: instances.update,
    expandDisk: (caller, { dockerStorageSize: dockerStorageGB, ...body }, idempotency) =>
      instances.expandDisk(caller, { ...body, dockerStorageGB }, idempotency),
    setBilling: instances.setBilling,
    open: instances.open,
    ends: async (caller, { instanceId, ...policy }) =>
      presentStopPolicy(await stopPolicies.set(caller, instanceId, stopPolicyOf(policy))),
    async keepAlive(caller, { instanceId, minutes }) {
      const { keepAliveUntilMs } = await stopPolicies.keepAlive(caller, instanceId, minutes * MINUTE_MS);
      return { instanceId, keepAliveUntilUnixMs: keepAliveUntilMs };
    },
    activity: async (caller, { instanceId }) =>
      presentIdleStatus(instanceId, await stopPolicies.idleStatus(caller, instanceId)),
    wake: wakes.set,
    getOperation: presented(operations.read, (operation) => ({ operation })),
    listOperations: (caller, { pager, ...subject }) => operations.list(caller, subject, pager),
    cancelOperation: operations.cancel,

    setTemplate: presented(templates.set, ({ name, updatedAtMs }) => ({ name, updatedAtUnixMs: updatedAtMs })),
    async listTemplates(caller) {
      const texts = (await templates.list(caller)).map(
        ({ name, launchText, updatedAtMs }) =>
          `{"name":${JSON.stringify(name)},"launch":${launchText},"updatedAtUnixMs":${updatedAtMs}}`,
      );
      return Buffer.from(`{"templates":[${texts.join(',')}]}`);
    },
    deleteTemplate: templates.delete,
  }) satisfies Partial<Handlers['closed']>;

const insideHandlers = ({ terminals, metrics, figures, listening, logs }: Control) =>
  ({
    listTerminals: async (caller, { instanceId }) => ({ terminals: await terminals.list(caller, instanceId) }),
    closeTerminal: terminals.close,
    async metrics(caller, { instanceId, fromUnixMs, toUnixMs, stepSeconds }) {
      const stepMs = stepSeconds === undefined ? undefined : stepSeconds * 1000;
      const range = { fromMs: fromUnixMs, toMs: toUnixMs, stepMs };
      return presentMetrics(instanceId, await metrics.read(caller, instanceId, range));
    },
    listListeningPorts: async (caller, { instanceId }) => ({
      instanceId,
      ports: await listening.list(caller, instanceId),
    }),
    instanceFigures: async (caller, { instanceIds }) => ({ figures: await figures.read(caller, instanceIds) }),
    async logs(caller, { instanceId, source, untilUnixMs: untilMs, limit = DEFAULT_LOG_LINES, ...where }) {
      const atMost = where.tail ?? limit;
      const page = await logs.read(caller, { instanceId, source, from: fromOf(where), untilMs, limit: atMost });
      return { instanceId, source, ...page, lines: page.lines.map(presentLogLine) };
    },
  }) satisfies Partial<Handlers['closed']>;

const operatorHandlers = ({ operator, egress, orphans }: Control, pages: ListPages) =>
  ({
    listAllInstances: (caller, { pager, ...request }) =>
      pages.answer({
        member: 'instances',
        caller,
        pager,
        isFiltered: true,
        read: async () => owned('instance', await operator.instances(request, pager)),
      }),
    listAllVolumes: (caller, { pager, ...request }) =>
      pages.answer({
        member: 'volumes',
        caller,
        pager,
        isFiltered: true,
        read: async () => owned('volume', await operator.volumes(request, pager)),
      }),
    async getAnyInstance(_, { instanceId }) {
      const {
        owner,
        instanceText,
        startCommand: _secret,
        runImageCommand: _own,
        ...rest
      } = await operator.instance(instanceId);
      const text = JSON.stringify({ accountId: owner.id, username: owner.name, ...rest });
      return Buffer.from(`{"instance":${instanceText},${text.slice(1)}`);
    },
    stopAnyInstance: presented(operator.stop, idOnly),
    terminateAnyInstance: presented(operator.terminate, idOnly),
    getEgress: (_, holder) => egress.get(holder),
    setEgress: egress.set,
    listStrays: presented(orphans.list, (strays) => ({ strays })),
    handleStray: orphans.handle,
  }) satisfies Partial<Handlers['closed']>;

const environmentHandlers = ({ environments: { list, change } }: Control) =>
  ({
    listEnvironment: async (caller) => ({ variables: await list(caller, 'account') }),
    setEnvironment: (caller, body, idempotency) => change(caller, 'account', body, idempotency),
    deleteEnvironment: (caller, body, idempotency) => change(caller, 'account', body, idempotency),
    listInstallationEnvironment: async (caller) => ({ variables: await list(caller, 'installation') }),
    setInstallationEnvironment: (caller, body, idempotency) => change(caller, 'installation', body, idempotency),
    deleteInstallationEnvironment: (caller, body, idempotency) => change(caller, 'installation', body, idempotency),
    listInstanceEnvironment: async (caller, { instanceId }) => ({ variables: await list(caller, { instanceId }) }),
    setInstanceEnvironment: (caller, { instanceId, ...body }, idempotency) =>
      change(caller, { instanceId }, body, idempotency),
    deleteInstanceEnvironment: (caller, { instanceId, ...body }, idempotency) =>
      change(caller, { instanceId }, body, idempotency),
  }) satisfies Partial<Handlers['closed']>;
