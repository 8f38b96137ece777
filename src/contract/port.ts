/** Who may come to a port of an instance through the gateway, by what it is or by a link. All of it ours. */
import { z } from 'zod';
import { id, volumeName } from './common.ts';

const SSH_PORT = 22;
/** A link that is to last longer is a setting. */
const YEAR_SECONDS = 365 * 24 * 3_600;

const port = z
  .number()
  .int()
  .min(1)
  .max(65_535)
  .refine((number) => number !== SSH_PORT, {
    error: 'must be another port: 22 is for ssh keys alone, which /user/sshkey/create registers',
  });

/** `signedIn`: any account of this installation. The values of `src/domain/port-access.ts`. */
export const portAccesses = ['owner', 'signedIn', 'public'] as const;

export const portAccessRequest = z.object({
  instanceId: id,
  port,
  /** `default`: public for what is in `nodePorts`, the owner's for all others. */
  access: z.enum([...portAccesses, 'default']),
});

const listedPort = z.strictObject({
  port: z.number().int(),
  access: z.enum(portAccesses),
  isDefault: z.boolean(),
  pathUrl: z.url(),
  /** Null where ports have no host of their own. */
  hostUrl: z.url().nullable(),
  /** Null where it has none, or none now. */
  nodePort: z.strictObject({ address: z.string(), port: z.number().int() }).nullable(),
  /** What the setting does not govern; else ''. */
  note: z.string(),
});
export const portAccessAnswer = z.strictObject({ instanceId: z.string(), port: listedPort });
export const portListAnswer = z.strictObject({ instanceId: z.string(), ports: z.array(listedPort) });

export const shareRequest = z.object({
  instanceId: id,
  port,
  seconds: z.number().int().min(1).max(YEAR_SECONDS),
  /** To know it by; named as volumes are. */
  name: volumeName.optional(),
});

const share = z.strictObject({
  shareId: z.string(),
  port: z.number().int(),
  /** '' when it was given none. */
  name: z.string(),
  createdAtUnixMs: z.number().int(),
  expiresAtUnixMs: z.number().int(),
});
/** The link and its token are told this once. A program may send the token as `X-Berth-Share` instead. */
export const shareAnswer = share.extend({ url: z.url(), token: z.string() });
export const shareListAnswer = z.strictObject({ shares: z.array(share) });
export const unshareRequest = z.object({ instanceId: id, shareId: id });
