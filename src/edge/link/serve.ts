/** The API's side of the link: streams regions and routes, answers requests, counts traffic. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import type {
  Forwarding,
  IdentifyCredential,
  Log,
  NotebookBar,
  RegionToOpen,
  RouteTable,
  RouteUpdate,
  ServedRegions,
  Wake,
} from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { LinkAddress } from './link-address.ts';
import { serveLinkAt, type LinkServer } from './link-server.ts';
import {
  authenticateQuestion,
  barQuestion,
  HEARTBEAT_MS,
  updateLine,
  redeemQuestion,
  sessionQuestion,
  shareQuestion,
  sshLogin,
  sshQuestion,
  stopQuestion,
  traffic,
  type TrafficReport,
  wakeQuestion,
} from './wire.ts';

const MAX_UNREAD_BYTES = 256 * 1024 ** 2;
const NO_ROUTES: RouteUpdate = { snapshot: null, routes: [], gone: [] };

interface LinkDeps {
  address: LinkAddress;
  routeTable: RouteTable;
  forwarding: Pick<
    Forwarding,
    'redeem' | 'session' | 'share' | 'ssh' | 'recordSshLogin' | 'beginTraffic' | 'onRevoked'
  >;
  notebookBar: NotebookBar;
  authenticate: IdentifyCredential;
  wake: Wake;
  issuer: string;
  ownRegionId: string;
  regions: Pick<ServedRegions, 'current' | 'onChange'>;
  log: Log;
}

export async function serveLink(deps: LinkDeps): Promise<LinkServer> {
  const { address, log } = deps;
  const ending = new AbortController();
  const served = { ...deps, gateways: new Map<string, TrafficCounts>(), ending: ending.signal };
  const server = await serveLinkAt({ address, answer: (req, res) => answer(served, req, res), log });
  return {
    async stop() {
      ending.abort();
      await server.stop();
    },
  };
}

interface Served extends LinkDeps {
  gateways: Map<string, TrafficCounts>;
  ending: AbortSignal;
}

async function answer(served: Served, req: IncomingMessage, res: ServerResponse): Promise<unknown> {
  const { authenticate, forwarding, gateways, notebookBar } = served;
  const gateway = String(req.headers['x-gateway'] ?? '');
  switch (`${req.method} ${req.url}`) {
    case 'GET /routes':
      return streamRoutes(served, gateway, res);
    case 'POST /authenticate': {
      const { accountId, scopes, limits } = await authenticate(authenticateQuestion.parse(await json(req)));
      return { accountId, scopes, limits };
    }
    case 'POST /session':
      return forwarding.session(sessionQuestion.parse(await json(req)).secret);
    case 'POST /share':
      return forwarding.share(shareQuestion.parse(await json(req)).token);
    case 'POST /redeem': {
      const { handover, visitor } = redeemQuestion.parse(await json(req));
      return forwarding.redeem(handover, visitor);
    }
    case 'POST /ssh':
      return forwarding.ssh(sshQuestion.parse(await json(req)).instanceId);
    case 'POST /sshLogin':
      await forwarding.recordSshLogin(sshLogin.parse(await json(req)));
      return null;
    case 'POST /bar':
      return notebookBar.read(barQuestion.parse(await json(req)));
    case 'POST /stop': {
      const { owned, visitor } = stopQuestion.parse(await json(req));
      await notebookBar.stop(owned, visitor);
      return null;
    }
    case 'POST /wake':
      return served.wake(wakeQuestion.parse(await json(req)));
    case 'POST /traffic':
      gateways.get(gateway)?.update(traffic.parse(await json(req)));
      return null;
    default:
      throw new Refusal('not_found', `the link knows no ${req.method} ${req.url}`);
  }
}

/** A gateway is present as long as it reads this stream. */
async function streamRoutes(served: Served, gateway: string, res: ServerResponse): Promise<void> {
  const { routeTable, forwarding, gateways, issuer, ownRegionId, regions, log } = served;
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  const counts = makeTrafficCounts(forwarding.beginTraffic);
  gateways.set(gateway, counts);
  log.info({ gateway }, 'a gateway connected');
  let number = 0;
  res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
  const send = (update: RouteUpdate, more: { ended?: string[]; regions?: readonly RegionToOpen[] } = {}): void => {
    res.write(updateLine(update, { number: ++number, issuer, ownRegionId, ended: [], ...more }));
    // A gateway that stopped reading gets a snapshot when it reconnects.
    if (res.writableLength > MAX_UNREAD_BYTES) res.destroy();
  };
  // Before the routes, so that a gateway which knows an instance knows its region.
  const sendRegions = (): void => send(NO_ROUTES, { regions: regions.current() });
  sendRegions();
  const unfollowRegions = regions.onChange(sendRegions);
  const heartbeat = setInterval(() => send(NO_ROUTES), HEARTBEAT_MS);
  // A revocation at an instance is sent with its route.
  const unfollow = forwarding.onRevoked(
    (ended) => 'accountId' in ended && send(NO_ROUTES, { ended: [ended.accountId] }),
  );
  try {
    await routeTable.follow((update) => send(update), AbortSignal.any([gone.signal, served.ending]));
  } finally {
    clearInterval(heartbeat);
    unfollow();
    unfollowRegions();
    counts.end();
    if (gateways.get(gateway) === counts) gateways.delete(gateway);
    res.end();
    log.info({ gateway }, 'a gateway disconnected');
  }
}

interface TrafficCounts {
  update(report: TrafficReport): void;
  end(): void;
}

function makeTrafficCounts(began: Forwarding['beginTraffic']): TrafficCounts {
  const open = new Map<string, (() => void)[]>();
  return {
    update(report) {
      for (const { instanceId, kind, open: wanted, began: begun } of report) {
        const key = `${kind} ${instanceId}`;
        const endCallbacks = open.get(key) ?? [];
        // Connections begun and ended between two reports count as use.
        if (begun > 0 && endCallbacks.length >= wanted) began(instanceId, kind)();
        while (endCallbacks.length < wanted) endCallbacks.push(began(instanceId, kind));
        while (endCallbacks.length > wanted) endCallbacks.pop()?.();
        if (wanted === 0) open.delete(key);
        else open.set(key, endCallbacks);
      }
    },
    end() {
      for (const dones of open.values()) for (const done of dones) done();
      open.clear();
    },
  };
}
