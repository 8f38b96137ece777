/** The gateway against the shortest pipe that node:http makes: replies of 1 KB from a server on the generator's core. */
import { join } from 'node:path';
import { z } from 'zod';
import type { Bench } from './bench.ts';
import { launchBody, startBerth } from './lib/berth.ts';
import { startChild } from './lib/child.ts';
import { getText, load, type Load } from './lib/load.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { alternate } from './lib/rounds.ts';
import { simulated } from './lib/settings.ts';

const CONNECTIONS = 64;
const REPLY_BYTES = 1024;
const START_DEADLINE_MS = 10_000;

const about = z.object({ port: z.number() });

export const gateway: Bench = {
  title: `replies of ${REPLY_BYTES} bytes through the gateway, ${CONNECTIONS} connections`,
  async run({ folder, flags, say }) {
    const short = flags.has('--short');
    const times = short ? { warmUpMs: 500, measureMs: 1000 } : { warmUpMs: 1500, measureMs: 3000 };
    const upstream = startChild('fixed.ts', 1, { bytes: REPLY_BYTES });
    try {
      const { port: inner } = await upstream.ask('about', about);
      let count = 0;
      const through = (way: 'notebook' | 'forward') => async (): Promise<Load> => {
        const berth = await startBerth(simulated(join(folder, `store-${count++}`), { dialTo: inner }));
        try {
          const { token } = await berth.login('admin');
          const client = berth.client(token);
          const { instanceId } = await client.launch(launchBody(berth));
          const endMs = Date.now() + START_DEADLINE_MS;
          for (;;) {
            const { instances } = await client.listInstances({ pager: { currentPage: 1, pageSize: 10 } });
            if (instances[0]?.instanceRuntimeInfo.status === 'Running') break;
            if (Date.now() > endMs)
              throw new Error(`the instance does not run: ${JSON.stringify(instances[0]?.instanceRuntimeInfo)}`);
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
          const port = Number(new URL(berth.gatewayUrl).port) || inner;
          const path = way === 'notebook' ? `/notebook/${instanceId}/` : `/forward/${instanceId}/8000/`;
          const headers: Record<string, string> = way === 'notebook' ? { authorization: `Bearer ${token}` } : {};
          return await load(berth.child, {
            port,
            connections: CONNECTIONS,
            requests: [getText(port, path, headers)],
            ...times,
          });
        } finally {
          await berth.child.stop();
        }
      };
      const rounds = await alternate<Load>({
        rounds: short ? 1 : 5,
        calibrator: { name: 'pipe', figure: (sample) => sample.perSecond },
        say,
        candidates: {
          async pipe() {
            const child = startChild('fixed.ts', 0, { pipeTo: inner });
            try {
              const { port } = await child.ask('about', about);
              return await load(child, { port, connections: CONNECTIONS, requests: [getText(port, '/')], ...times });
            } finally {
              await child.stop();
            }
          },
          notebook: through('notebook'),
          forward: through('forward'),
        },
      });
      const ratios = (name: string): number[] =>
        rounds.of(name).map((sample, round) => sample.perSecond / (rounds.of('pipe')[round]?.perSecond ?? Number.NaN));
      const row = (text: string, name: string): string[] => {
        const samples = rounds.of(name);
        const all = (pick: (sample: Load) => number): number => median(samples.map(pick));
        const milliseconds = `${shown(all((s) => s.p50Ms))}, ${shown(all((s) => s.p99Ms))}`;
        return [
          text,
          spread(samples.map((s) => s.perSecond)),
          milliseconds,
          shown(all((s) => s.serverUs)),
          name === 'pipe' ? '1' : spread(ratios(name)),
        ];
      };
      return {
        table: [
          ['', 'requests/s', 'p50, p99 ms', 'server µs each', 'ratio'],
          row('node:http, request and pipe', 'pipe'),
          row('gateway, notebook: the token checked on each request', 'notebook'),
          row('gateway, public port', 'forward'),
        ],
        verdicts: [
          { asked: 'gateway against the pipe', measured: `${shown(median(ratios('notebook')))} times`, met: null },
        ],
        notes: [
          `Rounds kept: ${rounds.kept}, dropped because the pipe was more than 15 % off its median: ${rounds.dropped}.`,
        ],
      };
    } finally {
      await upstream.stop();
    }
  },
};
