/**
 * # The gateway
 *
 * The door of instances to the web: `/notebook/<instanceId>/…` is the notebook, `/forward/<instanceId>/<port>/…` any other port. A
 * request goes through these rooms, each a file:
 *
 * 1. `head.ts` reads the head once and refuses what can be read in two ways; `routing.ts` makes one object of the address.
 * 2. `admission.ts` decides who may come in, by `credentials.ts` and `cookies.ts`; `open.ts` turns a link into a session.
 * 3. `instance-pools.ts` has or makes a connection; `inward.ts` writes the head that the instance gets.
 * 4. `forward.ts` passes request and response, `upgrade.ts` WebSockets; `outward.ts` writes the head that the browser gets.
 * 5. `answers.ts` speaks when no instance can, and `revocation.ts` cuts what was let in and no longer would be.
 *
 * What it promises and what path mode can't is written in docs/gateway.md.
 */
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Access, Forwarding } from '../../control/control.ts';
import type { Log } from '../../control/log.ts';
import { startingStatuses } from './starting.ts';
import { admit } from './admission.ts';
import type { Admitted, Visit } from './admission.ts';
import { badRequest, internal, notRunning, nothingHere, sendAnswer, sendRawAnswer, stopping, tooMany } from './answers.ts';
import type { Answer } from './answers.ts';
import { forward } from './forward.ts';
import { hasBody, readHead } from './head.ts';
import type { Head } from './head.ts';
import { InstancePools } from './instance-pools.ts';
import type { PoolLimits, PortPool } from './instance-pools.ts';
import { inwardHeaders, senderOf } from './inward.ts';
import type { Sender } from './inward.ts';
import { open } from './open.ts';
import { Revocation } from './revocation.ts';
import type { Live } from './revocation.ts';
import { targetOf } from './routing.ts';
import type { InstanceTarget } from './routing.ts';
import { tunnel } from './upgrade.ts';
import type { TunnelLimits } from './upgrade.ts';
