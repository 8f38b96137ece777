/** Ports, shares, commands, terminals, metrics and logs of an instance. */
import { DEFAULT_LOG_LINES } from '../../../contract/log.ts';
import type { Control } from '../../../control/index.ts';
import {
  commandOf,
  presentCommandResult,
  fromOf,
  presentTerminal,
  presentMetrics,
  presentFigures,
  presentLogLine,
  presentShare,
} from '../presenters.ts';
import { nothing, type ClosedHandlers } from './handler.ts';

export const insideHandlers = ({ ports, commands, terminals, metrics, figures, logs }: Control) =>
  ({
    async setPortAccess(caller, { body }) {
      return { instanceId: body.instanceId, port: await ports.setAccess(caller, body) };
    },
    async listPorts(caller, { body: { instanceId } }) {
      return { instanceId, ports: await ports.list(caller, instanceId) };
    },
    async sharePort(caller, { body: { seconds, name = '', ...at }, idempotency }) {
      const { url, token, ...share } = await ports.share(caller, { ...at, forMs: seconds * 1_000, name }, idempotency);
      return { ...presentShare(share), url, token };
    },
    async listShares(caller, { body: { instanceId } }) {
      return { shares: (await ports.shares(caller, instanceId)).map(presentShare) };
    },
    unsharePort: (caller, { body, idempotency }) => ports.unshare(caller, body, idempotency).then(nothing),
    exec: async (caller, { body, clientGone }) =>
      presentCommandResult(body, await commands.run(caller, commandOf(body), clientGone())),
    async listTerminals(caller, { body: { instanceId } }) {
      return { terminals: (await terminals.list(caller, instanceId)).map(presentTerminal) };
    },
    closeTerminal: (caller, { body: { instanceId, terminal } }) =>
      terminals.close(caller, { instanceId, name: terminal }).then(nothing),
    async metrics(caller, { body: { instanceId, fromUnixMs, toUnixMs, stepSeconds } }) {
      const stepMs = stepSeconds === undefined ? undefined : stepSeconds * 1000;
      const range = { fromMs: fromUnixMs, toMs: toUnixMs, stepMs };
      return presentMetrics(instanceId, await metrics.read(caller, instanceId, range));
    },
    async instanceFigures(caller, { body: { instanceIds } }) {
      return { figures: (await figures.read(caller, instanceIds)).map(presentFigures) };
    },
    async logs(caller, { body: { instanceId, source, untilUnixMs: untilMs, limit = DEFAULT_LOG_LINES, ...where } }) {
      const atMost = where.tail ?? limit;
      const page = await logs.read(caller, { instanceId, source, from: fromOf(where), untilMs, limit: atMost });
      return { instanceId, source, ...page, lines: page.lines.map(presentLogLine) };
    },
  }) satisfies Partial<ClosedHandlers>;
