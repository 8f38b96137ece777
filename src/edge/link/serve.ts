/** The API's side of the link: streams routes to gateways, answers them, counts their traffic. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import type { Forwarding, RouteTable, RouteUpdate, IdentifyCredential, Log } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
import { makeCounted, type Counted } from './traffic-counts.ts';
import { listenAt } from './listen.ts';
import { refuse, say } from './replies.ts';
import {
  authenticateQuestion,
  HEARTBEAT_MS,
  lineText,
  redeemQuestion,
  sessionQuestion,
  shareQuestion,
  sshQuestion,
  traffic,
} from './wire.ts';

const MOST_UNREAD_BYTES = 256 * 1024 ** 2;
const NO_ROUTES: RouteUpdate = { snapshot: null, routes: [], gone: [] };

export interface LinkDeps {
  /** Socket path. The socket of a process that died is replaced. */
  path: string;
  routeTable: RouteTable;
  forwarding: Pick<Forwarding, 'redeem' | 'session' | 'share' | 'ssh' | 'beginTraffic' | 'onRevoked'>;
  authenticate: IdentifyCredential;
  issuer: string;
  log: Log;
}

export interface Link {
  stop(): Promise<void>;
}

export async function serveLink(deps: LinkDeps): Promise<Link> {
  const { path, log } = deps;
  const ending = new AbortController();
  const gateways = new Map<string, Counted>();
  const served = { ...deps, gateways, ending: ending.signal };
  const server = createServer((req, res) => {
    answer(served, req, res).catch((error: unknown) => refuse(log, res, error));
  });
  await listenAt(server, path);
  return {
    async stop() {
      ending.abort();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Served extends LinkDeps {
  gateways: Map<string, Counted>;
  ending: AbortSignal;
}

async function answer(served: Served, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { authenticate, forwarding, gateways } = served;
  const gateway = String(req.headers['x-gateway'] ?? '');
  switch (`${req.method} ${req.url}`) {
    case 'GET /routes':
      return tellRoutes(served, gateway, res);
    case 'POST /authenticate': {
      const { accountId } = await authenticate(authenticateQuestion.parse(await json(req)));
      return say(res, { accountId });
    }
    case 'POST /session':
      return say(res, await forwarding.session(sessionQuestion.parse(await json(req)).secret));
    case 'POST /share':
      return say(res, await forwarding.share(shareQuestion.parse(await json(req)).token));
    case 'POST /redeem':
      return say(res, await forwarding.redeem(redeemQuestion.parse(await json(req)).handover));
    case 'POST /ssh':
      return say(res, await forwarding.ssh(sshQuestion.parse(await json(req)).instanceId));
    case 'POST /traffic':
      gateways.get(gateway)?.take(traffic.parse(await json(req)));
      return say(res, null);
    default:
      throw new Refusal('not_found', `the link knows no ${req.method} ${req.url}`);
  }
}

/** A gateway is present as long as it reads this stream. */
async function tellRoutes(served: Served, gateway: string, res: ServerResponse): Promise<void> {
  const { routeTable, forwarding, gateways, issuer, log } = served;
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  const counted = makeCounted(forwarding.beginTraffic);
  gateways.set(gateway, counted);
  log.info({ gateway }, 'a gateway follows');
  let number = 0;
  res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
  const tell = (told: RouteUpdate, ended: string[] = []): void => {
    res.write(lineText(told, { number: ++number, issuer, ended }));
    // A gateway that stopped reading gets a snapshot when it reconnects.
    if (res.writableLength > MOST_UNREAD_BYTES) res.destroy();
  };
  const beat = setInterval(() => tell(NO_ROUTES), HEARTBEAT_MS);
  // A revocation at an instance is sent with its route.
  const unfollow = forwarding.onRevoked((ended) => 'accountId' in ended && tell(NO_ROUTES, [ended.accountId]));
  try {
    await routeTable.follow(tell, AbortSignal.any([gone.signal, served.ending]));
  } finally {
    clearInterval(beat);
    unfollow();
    counted.end();
    if (gateways.get(gateway) === counted) gateways.delete(gateway);
    res.end();
    log.info({ gateway }, 'a gateway follows no longer');
  }
}
