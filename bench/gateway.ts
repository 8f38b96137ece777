/**
 * The gateway as a proxy: 1 KB responses with an access check each, against common proxies with one
 * fixed upstream and no check.
 */
import type { Bench } from './bench.ts';
import { launchMany, startAll, startApart, type Region } from './lib/deployed.ts';
import type { Served } from './lib/external-server.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { ensurePackages } from './lib/packages.ts';
import { peerNeeds, servedBy, startCaddy, startConfigurable, startNginxProxy, startUpstream } from './lib/peers.ts';
import { alternate, type Rounds } from './lib/rounds.ts';
import { flood, wrkNeed, type Flood } from './lib/wrk.ts';

const CONNECTIONS = 64;
const REPLY_BYTES = 1024;
const ROUTES = 10_000;
const ROUTES_SHORT = 500;
const ROTATED_INSTANCES = 64;
const PUBLIC_PORT = 8000;

interface Sample extends Flood {
  /** Median over one connection. */
  oneMs: number;
}

const OURS = 'gateway, the token checked on each request';

export const gateway: Bench = {
  title: `replies of ${REPLY_BYTES} bytes, ${CONNECTIONS} connections, ${ROUTES.toLocaleString('en')} routes`,
  async run({ folder, flags, say }) {
    const short = flags.has('--short');
    await ensurePackages([...peerNeeds, wrkNeed]);
    const routes = short ? ROUTES_SHORT : ROUTES;
    say(`  launching ${routes.toLocaleString('en')} instances`);
    const region = await launchMany(`${folder}/data`, routes, ROTATED_INSTANCES);
    const upstream = await startUpstream(folder, 1, REPLY_BYTES);
    try {
      const rounds = await measured({ region, upstream: upstream.port, folder, short, say });
      return { table: tableOf(rounds), verdicts: verdictsOf(rounds), notes: notesOf(rounds, routes) };
    } finally {
      await upstream.stop();
    }
  },
};

interface Given {
  region: Region;
  upstream: number;
  folder: string;
  short: boolean;
  say: (text: string) => void;
}

async function measured({ region, upstream, folder, short, say }: Given): Promise<Rounds<Sample>> {
  const notebooks = region.ids.map((id) => `/notebook/${id}/`);
  const shown = { authorization: `Bearer ${region.token}` };
  const times = { warmUpS: 2, measureS: short ? 1 : 3 };
  const over =
    (start: () => Promise<Served>, paths: string[] = ['/'], headers: Record<string, string> = {}) =>
    async (): Promise<Sample> => {
      const served = await start();
      try {
        const given = { paths, headers, folder };
        const many = await flood(served, { ...given, ...times, connections: CONNECTIONS });
        const one = await flood(served, { ...given, connections: 1, warmUpS: 0, measureS: 1 });
        return { ...many, oneMs: one.p50Ms };
      } finally {
        await served.stop();
      }
    };
  const nobody = async (): Promise<Served> => ({ pid: process.pid, port: upstream, stop: async () => {} });
  return alternate<Sample>({
    rounds: short ? 1 : 5,
    calibrator: { name: 'bare', figure: (sample) => sample.serverUs },
    say,
    candidates: {
      bare: over(() => servedBy('fixed.ts', 0, { bytes: REPLY_BYTES })),
      pipe: over(() => servedBy('fixed.ts', 0, { pipeTo: upstream })),
      httpProxy3: over(() => servedBy('peer.ts', 0, { kind: 'http', to: upstream })),
      configurable: over(() => startConfigurable(upstream)),
      caddy: over(() => startCaddy(folder, upstream)),
      nginx: over(() => startNginxProxy(folder, upstream)),
      none: over(nobody),
      apart: over(() => startApart(region, upstream), notebooks, shown),
      apartOne: over(() => startApart(region, upstream), notebooks.slice(0, 1), shown),
      apartPublic: over(
        () => startApart(region, upstream),
        region.ids.map((id) => `/forward/${id}/${PUBLIC_PORT}/`),
      ),
      all: over(() => startAll(region, upstream), notebooks, shown),
    },
  });
}

const ratios = (rounds: Rounds<Sample>, name: string, to: string, by: (one: Sample, peer: Sample) => number) =>
  rounds.of(name).map((one, round) => {
    const peer = rounds.of(to)[round];
    return peer === undefined ? Number.NaN : by(one, peer);
  });
const byRate = (one: Sample, peer: Sample): number => one.perSecond / peer.perSecond;
const byTime = (one: Sample, peer: Sample): number => peer.serverUs / one.serverUs;

function tableOf(rounds: Rounds<Sample>): string[][] {
  const row = (text: string, name: string): string[] => {
    const samples = rounds.of(name);
    const all = (pick: (sample: Sample) => number): number => median(samples.map(pick));
    const isServer = name !== 'none';
    return [
      text,
      spread(samples.map((sample) => sample.perSecond)),
      `${shown(all((s) => s.p50Ms))}, ${shown(all((s) => s.p99Ms))}`,
      shown(all((s) => s.oneMs)),
      isServer ? spread(samples.map((sample) => sample.serverUs)) : '-',
      `${isServer ? shown(all((s) => s.serverShare)) : '-'}, ${shown(all((s) => s.generatorShare))}`,
      isServer ? shown(median(ratios(rounds, name, 'bare', byTime))) : '-',
    ];
  };
  return [
    ['', 'requests/s', 'p50, p99 ms', 'one connection: p50 ms', 'server µs each', 'cores: server, wrk', 'of bare'],
    row('bare node:http, no proxy: what Node can answer at best', 'bare'),
    row('node:http, request and pipe', 'pipe'),
    row('http-proxy-3 2.0.1', 'httpProxy3'),
    row('configurable-http-proxy 5.3.0', 'configurable'),
    row('Caddy, GOMAXPROCS=1', 'caddy'),
    row('nginx', 'nginx'),
    row('no proxy: what wrk and the server behind can do on their core', 'none'),
    row(`${OURS}, ${ROTATED_INSTANCES} instances in turn`, 'apart'),
    row(`${OURS}, one instance`, 'apartOne'),
    row(`gateway, public port, ${ROTATED_INSTANCES} instances in turn`, 'apartPublic'),
    row('gateway and API in one process, as the first', 'all'),
  ];
}

function verdictsOf(rounds: Rounds<Sample>) {
  const against = (peer: string, name: string, asked: number) => {
    const rate = median(ratios(rounds, 'apart', name, byRate));
    const time = median(ratios(rounds, 'apart', name, byTime));
    return {
      asked: `≥ ${asked} × ${peer}`,
      measured: `${shown(rate)} by rate, ${shown(time)} by processor time`,
      // wrk and the upstream share a core, which bounds the rate of a fast proxy.
      met: Math.min(rate, time) >= asked,
    };
  };
  const addedMs = median(
    rounds.of('apart').map(({ oneMs }, round) => oneMs - (rounds.of('none')[round]?.oneMs ?? Number.NaN)),
  );
  return [
    against('http-proxy-3', 'httpProxy3', 1.8),
    against('configurable-http-proxy', 'configurable', 2.5),
    against('Caddy', 'caddy', 1.4),
    against('nginx', 'nginx', 0.42),
    { asked: 'one connection adds ≤ 0.13 ms', measured: `${shown(addedMs)} ms`, met: addedMs <= 0.13 },
  ];
}

const notesOf = (rounds: Rounds<Sample>, routes: number): string[] => [
  `Rounds kept: ${rounds.retained}, dropped because the bare server was more than 15 % off its median: ${rounds.dropped}. Ratios are within a round; a figure is met when both are.`,
  `The gateway is a process of its own (\`BERTH_ROLE=gateway\`) that follows an API with ${routes.toLocaleString('en')} running instances of the simulated engine over the real socket; only where it dials is changed, to the one server behind all proxies: nginx answering ${REPLY_BYTES} bytes from its configuration, on wrk's core. Requests go to notebooks, with the owner's token. The peers have one place to go, and check nobody.`,
];
