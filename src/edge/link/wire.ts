/**
 * Protocol between API and gateway process: HTTP over a link. The API's `GET /routes`
 * streams numbered JSON lines: all routes, then changes and revocations. The gateway's `GET
 * /attach` upgrades to a WebSocket with `berth.terminal.v1`.
 */
import { z } from 'zod';
import type {
  Caller,
  GatewayRoute,
  NotebookBar,
  RegionToOpen,
  RouteUpdate,
  SshLogin,
  Log,
  WakeOffer,
  WakeRequest,
} from '../../control/index.ts';
import { auditCredentials } from '../../domain/access/audit.ts';
import { portAccesses, type PortAccess } from '../../domain/access/port-access.ts';
import { isInstanceId, regionId, type InstanceId } from '../../domain/kernel/ids.ts';
import type { RegionSettings } from '../../domain/regions/region-settings.ts';
import { wakers } from '../../domain/compute/wake.ts';
import { scopes } from '../../domain/access/scopes.ts';
import { refusalCodes, Refusal } from '../../domain/kernel/refusal.ts';
import type { ServerResponse } from 'node:http';

const instanceId = z.custom<InstanceId>((value) => typeof value === 'string' && isInstanceId(value));

const route = z.object({
  instanceId,
  regionId: z.string(),
  ownerId: z.string(),
  access: z
    .array(z.tuple([z.number(), z.enum(portAccesses)]))
    .transform((entries): ReadonlyMap<number, PortAccess> => new Map(entries)),
  nodePorts: z
    .array(z.tuple([z.number(), z.string()]))
    .default([])
    .transform((entries): ReadonlyMap<number, string> => new Map(entries)),
  running: z.boolean(),
  status: z.string(),
  notebookToken: z.string(),
  sshFront: z.boolean(),
  notebook: z.object({ state: z.string(), text: z.string() }).nullable(),
  wake: z.enum(wakers).default('off'),
  startingImage: z.string().optional(),
});

const region = z.object({
  id: z.string().transform(regionId),
  address: z.string(),
  // Trusted: the API has checked them, and a newer one may have more fields.
  settings: z.custom<RegionSettings>((value) => typeof value === 'object' && value !== null),
  secret: z.string().nullable(),
}) satisfies z.ZodType<RegionToOpen>;

/**
 * `number` counts lines from 1 and reveals a lost one; `issuer` is the one of access tokens;
 * `ownRegionId` is the region of the settings of the server. `regions` are all others, with opened
 * credentials: in the first line, and after a change; null: unchanged.
 */
export const routeMessage = z.object({
  number: z.number(),
  issuer: z.string(),
  ownRegionId: z.string(),
  regions: z.array(region).nullable().default(null),
  snapshot: z.enum(['part', 'last']).nullable(),
  routes: z.array(route),
  gone: z.array(z.string()),
  ended: z.array(z.string()).default([]),
});

const routeText = (known: GatewayRoute): object => ({
  ...known,
  access: [...known.access],
  nodePorts: [...known.nodePorts],
});

interface LineOptions {
  number: number;
  issuer: string;
  ownRegionId: string;
  ended: string[];
  regions?: readonly RegionToOpen[];
}

export const updateLine = (update: RouteUpdate, more: LineOptions): string =>
  `${JSON.stringify({ ...more, ...update, routes: update.routes.map(routeText) })}\n`;

/** Lines carry secrets, and errors of JSON quote the text: this one does not. */
export function readLine(text: string): z.output<typeof routeMessage> {
  const fields = ((): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      throw new Error('a line of the API is not JSON');
    }
  })();
  return routeMessage.parse(fields);
}

/** Idle streams send empty lines. A longer silence means a lost peer. */
export const HEARTBEAT_MS = 2_000;
export const SILENT_MS = 10_000;

export const authenticateQuestion = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('token'), token: z.string() }),
  z.object({ kind: z.literal('apiKey'), key: z.string() }),
]);
export const sessionQuestion = z.object({ secret: z.string() });
export const shareQuestion = z.object({ token: z.string() });
const visitor = z.object({ address: z.string(), userAgent: z.string() });
export const redeemQuestion = z.object({
  handover: z.string(),
  visitor,
});
export const sshQuestion = z.object({ instanceId: z.string() });
const account = z.object({ accountId: z.string(), username: z.string() });
export const sshLogin = z.object({
  instanceId: z.string(),
  account: account.nullable(),
  fingerprint: z.string(),
  address: z.string(),
  program: z.string(),
  atMs: z.number(),
}) satisfies z.ZodType<SshLogin>;

const limits = z.object({ expiresAtMs: z.number().nullable(), addresses: z.array(z.string()).nullable() });
export const callerAnswer = z.object({
  accountId: z.string(),
  scopes: z.array(z.enum(scopes)).nullable(),
  limits: limits.exactOptional(),
}) satisfies z.ZodType<Pick<Caller, 'accountId' | 'scopes' | 'limits'>>;
export const sessionAnswer = z.object({ accountId: z.string(), limits: limits.exactOptional() }).nullable();
export const shareAnswer = z.object({ instanceId: z.string(), port: z.number(), expiresAtMs: z.number() }).nullable();
export const redeemAnswer = z
  .object({ session: z.string(), accountId: z.string(), instanceId: z.string(), expiresAtMs: z.number() })
  .nullable();

export const wakeQuestion = z.object({
  instanceId,
  accountId: z.string().nullable(),
  credential: z.enum(['login', 'apiKey', 'link', 'none']),
  visitor: z.object({ address: z.string(), userAgent: z.string() }),
  starts: z.boolean(),
}) satisfies z.ZodType<WakeRequest>;
export const wakeAnswer = z.object({
  dollarsPerHour: z.number().nullable(),
  expectedMs: z.number().nullable(),
}) satisfies z.ZodType<WakeOffer>;

export const sshAnswer = z
  .object({
    account,
    hostKey: z.string(),
    keys: z.array(z.string()),
    authorities: z.array(z.string()),
    principals: z.array(z.string()),
  })
  .nullable();

export const barQuestion = z.object({ ownerId: z.string(), instanceId: z.string() });
const figure = z.number().nullable();
export const barAnswer = z.object({
  name: z.string(),
  status: z.string(),
  pricePerHour: z.number(),
  costSoFar: z.number(),
  stopsInMs: figure,
  gpus: z
    .object({ count: z.number(), memoryUsedBytes: figure, memoryTotalBytes: figure, busyPercent: figure })
    .nullable(),
}) satisfies z.ZodType<Awaited<ReturnType<NotebookBar['read']>>>;
export const stopQuestion = z.object({
  owned: barQuestion,
  visitor: visitor.extend({ credential: z.enum(auditCredentials) }),
});

/** Connections per instance and kind: open now, and begun since the last report. */
export const traffic = z.array(
  z.object({
    instanceId,
    kind: z.enum(['use', 'poll']),
    open: z.number().int().min(0),
    began: z.number().int().min(0),
  }),
);
export type TrafficReport = z.output<typeof traffic>;

export const terminalKey = z.object({ instanceId, name: z.string() });
const size = { columns: z.number(), rows: z.number() };
export const terminalRequest = terminalKey.extend({
  ownerId: z.string(),
  maxOfOwner: z.number(),
  size: z.object(size),
});
export const listQuestion = z.object({ instanceId });
export const listAnswer = z.array(
  z.object({
    terminal: z.string(),
    ...size,
    viewers: z.number(),
    createdAtUnixMs: z.number(),
    closesAtUnixMs: z.number().nullable(),
  }),
);

const refusalBody = z.object({
  code: z.enum(refusalCodes),
  message: z.string(),
  retryAfterS: z.number().optional(),
});

const JSON_TYPE = { 'Content-Type': 'application/json' };

export function sendJson(res: ServerResponse, body: unknown): void {
  res.writeHead(200, JSON_TYPE).end(JSON.stringify(body));
}

export function sendRefusal(log: Pick<Log, 'error'>, res: ServerResponse, error: unknown): void {
  if (res.headersSent) return void res.destroy();
  if (!(error instanceof Refusal)) log.error({ err: error }, 'could not answer a request of another process');
  const { code, message, retryAfterS } =
    error instanceof Refusal
      ? error
      : new Refusal('unavailable', 'the request could not be answered; try again in a moment');
  res.writeHead(409, JSON_TYPE).end(JSON.stringify({ code, message, retryAfterS }));
}

export function parseRefusal(body: unknown): Refusal {
  const { code, message, retryAfterS } = refusalBody.parse(body);
  return new Refusal(code, message, retryAfterS === undefined ? {} : { retryAfterS });
}
