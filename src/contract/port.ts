/** Access to ports of an instance through the gateway, and links that share a port. */
import { z } from 'zod';
import { portAccesses } from '../domain/port-access.ts';
import { flag, id, integer, named, text, unixMs, volumeName } from './common.ts';

const SSH_PORT = 22;
const YEAR_SECONDS = 365 * 24 * 3_600;

const port = z
  .number()
  .int()
  .min(1)
  .max(65_535)
  .refine((number) => number !== SSH_PORT, {
    error: 'must be another port: 22 is for ssh keys alone, which /user/sshkey/create registers',
  })
  .describe('Port inside the instance, not 22');

export const portAccessRequest = named(
  'PortAccessRequest',
  z.object({
    instanceId: id.describe('Instance ID'),
    port,
    access: z
      .enum([...portAccesses, 'default'])
      .describe('`signedIn`: any account; `default`: public for ports in `nodePorts`, else owner'),
  }),
);

const portAddress = named(
  'PortAddress',
  z.strictObject({ address: text('IP address'), port: integer('Forwarded port') }),
);
const listedPort = named(
  'PortAccess',
  z.strictObject({
    port: integer('Port inside the instance'),
    access: z.enum(portAccesses).describe('Access in force; `signedIn`: any account'),
    isDefault: flag('Whether the access is the default'),
    pathUrl: z.url().describe('URL at the gateway'),
    hostUrl: z.url().nullable().describe('URL with a host of its own; null without such hosts'),
    nodePort: portAddress.nullable().describe('Forwarded port; null without one'),
    note: text('Paths around the setting; may be empty'),
  }),
);
export const portAccessAnswer = named(
  'PortAccessAnswer',
  z.strictObject({ instanceId: text('Instance ID'), port: listedPort.describe('The port') }),
);
export const portListAnswer = named(
  'ListPortsAnswer',
  z.strictObject({ instanceId: text('Instance ID'), ports: z.array(listedPort).describe('Ports of the instance') }),
);

export const shareRequest = named(
  'SharePortRequest',
  z.object({
    instanceId: id.describe('Instance ID'),
    port,
    seconds: z.number().int().min(1).max(YEAR_SECONDS).describe('Lifetime of the link in seconds'),
    name: volumeName.describe('Display name').optional(),
  }),
);

const shareFields = {
  shareId: text('ID of the link'),
  port: integer('Port inside the instance'),
  name: text('Display name; may be empty'),
  createdAtUnixMs: unixMs('Creation time'),
  expiresAtUnixMs: unixMs('Expiry'),
};
export const shareAnswer = named(
  'SharePortAnswer',
  z.strictObject({
    ...shareFields,
    url: z.url().describe('The link; no later answer repeats it'),
    token: text('Token of the link for the header `X-Berth-Share`; no later answer repeats it'),
  }),
);
const share = named('Share', z.strictObject(shareFields));
export const shareListAnswer = named(
  'ListSharesAnswer',
  z.strictObject({ shares: z.array(share).describe('Links that have not expired, oldest first') }),
);
export const unshareRequest = named(
  'UnsharePortRequest',
  z.object({ instanceId: id.describe('Instance ID'), shareId: id.describe('ID of the link') }),
);
