/** Access to ports of an instance through the gateway, and links that share a port. */
import { z } from 'zod';
import { portAccesses } from '../../domain/access/port-access.ts';
import {
  answer,
  emptyAnswer,
  flag,
  id,
  instanceIdBody,
  integer,
  request,
  text,
  unixMs,
  volumeName,
  wholeNumber,
} from '../common.ts';
import { jsonRoute, readRoute } from '../route.ts';

const SSH_PORT = 22;
const YEAR_SECONDS = 365 * 24 * 3_600;

const port = wholeNumber(1, 65_535)
  .refine((number) => number !== SSH_PORT, {
    error: 'must be another port: 22 is for ssh keys alone, which /user/sshkey/create registers',
  })
  .meta({ not: { const: SSH_PORT } })
  .describe('Port inside the instance, not 22');

export const portAccessRequest = request('PortAccessRequest', {
  instanceId: id.describe('Instance ID'),
  port,
  access: z
    .enum([...portAccesses, 'default'])
    .describe(
      '`loopback`: the owner alone, also to a program that listens on 127.0.0.1 or ::1 only; `signedIn`: any account; `default`: public for ports in `nodePorts`, else owner',
    ),
});

const portAddress = answer('PortAddress', { address: text('IP address'), port: integer('Forwarded port') });
const listedPort = answer('PortAccess', {
  port: integer('Port inside the instance'),
  access: z
    .enum(portAccesses)
    .describe('Access in force; `loopback`: the owner, also to programs on loopback; `signedIn`: any account'),
  isDefault: flag('Whether the access is the default'),
  pathUrl: z.url().describe('URL at the gateway'),
  hostUrl: z.url().nullable().describe('URL with a host of its own; null without such hosts'),
  nodePort: portAddress.nullable().describe('Forwarded port; null without one'),
  note: text('Paths around the setting; may be empty'),
});
export const portAccessAnswer = answer('PortAccessAnswer', {
  instanceId: text('Instance ID'),
  port: listedPort.describe('The port'),
});
export const portListAnswer = answer('ListPortsAnswer', {
  instanceId: text('Instance ID'),
  ports: z.array(listedPort).describe('Ports of the instance'),
});

const listener = answer('ListeningPort', {
  port: integer('Port inside the instance'),
  onLoopback: flag('Whether programs listen on 127.0.0.1 or ::1 only: the access `loopback` reaches those'),
});
export const listeningAnswer = answer('ListListeningPortsAnswer', {
  instanceId: text('Instance ID'),
  ports: z.array(listener).describe('By port'),
});

export const shareRequest = request('SharePortRequest', {
  instanceId: id.describe('Instance ID'),
  port,
  seconds: wholeNumber(1, YEAR_SECONDS).describe('Lifetime of the link in seconds'),
  name: volumeName.describe('Display name').optional(),
});

const shareFields = {
  shareId: text('ID of the link'),
  port: integer('Port inside the instance'),
  name: text('Display name; may be empty'),
  createdAtUnixMs: unixMs('Creation time'),
  expiresAtUnixMs: unixMs('Expiry'),
};
export const shareAnswer = answer('SharePortAnswer', {
  ...shareFields,
  url: z.url().describe('The link; no later answer repeats it'),
  token: text('Token of the link for the header `X-Berth-Share`; no later answer repeats it'),
});
const share = answer('Share', shareFields);
export const shareListAnswer = answer('ListSharesAnswer', {
  shares: z.array(share).describe('Links that have not expired, oldest first'),
});
export const unshareRequest = request('UnsharePortRequest', {
  instanceId: id.describe('Instance ID'),
  shareId: id.describe('ID of the link'),
});

export const portRoutes = {
  setPortAccess: jsonRoute('/instance/port/access', portAccessRequest, portAccessAnswer, {
    lasting: { scope: 'instances' },
    summary:
      'Set the access to a port through the gateway: owner, owner with loopback, any account (signedIn), public or default',
    source: 'ours; nodePorts of docs/interface.md §4.1 are the default',
  }),
  listPorts: readRoute('/instance/port/list', instanceIdBody, portListAnswer, {
    summary: 'List the ports in nodePorts and those with a setting or link, with access and URLs',
  }),
  listListeningPorts: readRoute('/instance/port/listening', instanceIdBody, listeningAnswer, {
    summary:
      'List the ports on which programs inside a running instance listen, without ssh, the notebook, and ports above 32767 on loopback',
  }),
  sharePort: jsonRoute('/instance/port/share', shareRequest, shareAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Create a link that opens a port without login until it expires or is revoked',
  }),
  listShares: readRoute('/instance/port/shares', instanceIdBody, shareListAnswer, {
    summary: 'List the links to ports of an instance, oldest first, without tokens',
  }),
  unsharePort: jsonRoute('/instance/port/unshare', unshareRequest, emptyAnswer, {
    idempotent: true,
    summary: 'Revoke a link to a port and disconnect its users',
  }),
} as const;
