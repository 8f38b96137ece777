/**
 * # Between the API and a gateway that is a process of its own
 *
 * HTTP over a socket of this machine that only Berth's own user may open. `GET /routes` is a stream that does not end: all routes, then each
 * change and each account at which a way in ended, a JSON text a line, numbered. `POST /authenticate`, `/session`, `/share`, `/redeem`,
 * `/ssh` ask what only the database knows. `POST /traffic` tells what goes to which instance, for idleness.
 *
 * And the other way, over a socket of the gateway's: `POST /list` and `/close` of terminals, and `GET /attach`, which is upgraded to a WebSocket
 * that speaks what viewers of a terminal speak (`berth.terminal.v1`).
 */
import { z } from 'zod';
import type { Caller, GatewayRoute, RouteUpdate } from '../../control/index.ts';
import { portAccesses, type PortAccess } from '../../domain/port-access.ts';
import { isInstanceId, type InstanceId } from '../../domain/ids.ts';
import { refusalCodes } from '../../domain/refusal.ts';

const instanceId = z.custom<InstanceId>((value) => typeof value === 'string' && isInstanceId(value));

const route = z.object({
  instanceId,
  ownerId: z.string(),
  access: z
    .array(z.tuple([z.number(), z.enum(portAccesses)]))
    .transform((entries): ReadonlyMap<number, PortAccess> => new Map(entries)),
  running: z.boolean(),
  status: z.string(),
  notebookToken: z.string(),
  sshFront: z.boolean(),
});

/** A line of the stream. `number` counts them from 1: where one is left out, a line was lost. `issuer` names the installation, as access tokens do. */
export const line = z.object({
  number: z.number(),
  issuer: z.string(),
  snapshot: z.enum(['part', 'last']).nullable(),
  routes: z.array(route),
  gone: z.array(z.string()),
  /** Accounts at which a login, key or session has ended. */
  ended: z.array(z.string()).default([]),
});

const routeText = (known: GatewayRoute): object => ({ ...known, access: [...known.access] });

export const lineText = (told: RouteUpdate, more: { number: number; issuer: string; ended: string[] }): string =>
  `${JSON.stringify({ ...more, ...told, routes: told.routes.map(routeText) })}\n`;

/** An empty one is sent when there is nothing to tell: who hears nothing for longer than this has lost the other side. */
export const HEARTBEAT_MS = 2_000;
export const SILENT_MS = 10_000;

const credential = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('token'), token: z.string() }),
  z.object({ kind: z.literal('apiKey'), key: z.string() }),
]);
export const authenticateQuestion = credential;
export const sessionQuestion = z.object({ secret: z.string() });
export const shareQuestion = z.object({ token: z.string() });
export const redeemQuestion = z.object({ handover: z.string() });
export const sshQuestion = z.object({ instanceId: z.string() });

/** Only what the gateway looks at. */
export const callerAnswer = z.object({ accountId: z.string() }) satisfies z.ZodType<Pick<Caller, 'accountId'>>;
export const sessionAnswer = z.object({ accountId: z.string() }).nullable();
export const shareAnswer = z.object({ instanceId: z.string(), port: z.number(), expiresAtMs: z.number() }).nullable();
export const redeemAnswer = z
  .object({ session: z.string(), accountId: z.string(), instanceId: z.string(), expiresAtMs: z.number() })
  .nullable();

export const sshAnswer = z.object({ hostKey: z.string(), keys: z.array(z.string()) }).nullable();

/** What is open now to each instance, of either kind, and what came and went since the last time. */
export const traffic = z.array(
  z.object({
    instanceId,
    kind: z.enum(['use', 'poll']),
    open: z.number().int().min(0),
    began: z.number().int().min(0),
  }),
);
export type TrafficReport = z.output<typeof traffic>;

/** Asked of the process that holds terminals, which is the gateway's. */
export const terminalPlace = z.object({ instanceId, name: z.string() });
const size = { columns: z.number(), rows: z.number() };
export const terminalWish = terminalPlace.extend({ ownerId: z.string(), size: z.object(size) });
export const listQuestion = z.object({ instanceId });
export const listAnswer = z.array(
  z.object({
    name: z.string(),
    ...size,
    viewers: z.number(),
    createdAtMs: z.number(),
    closesAtMs: z.number().nullable(),
  }),
);

export const refused = z.object({
  code: z.enum(refusalCodes),
  message: z.string(),
  retryAfterS: z.number().optional(),
});
