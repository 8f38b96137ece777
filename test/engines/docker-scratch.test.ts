import { it } from 'vitest';
import http from 'node:http';
import { mkdirSync, writeFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { makeDockerFixture } from './docker-fixture.ts';
import { makeSubject, newUserId, deadline } from './conformance/subject.ts';
import { networkName } from '../../src/engines/labels.ts';
import { createOptions } from '../../src/engines/docker/create-options.ts';
it('x', async () => {
  const f = await makeDockerFixture();
  const s = makeSubject(f);
  const agent = new http.Agent({ keepAlive: true });
  const req = (method: string, path: string, body?: unknown): Promise<any> =>
    new Promise((res, rej) => {
      const data = body ? JSON.stringify(body) : undefined;
      const r = http.request(
        {
          socketPath: '/var/run/docker.sock',
          agent,
          method,
          path,
          headers: data ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(data) } : {},
        },
        (m) => {
          let t = '';
          m.on('data', (c) => (t += c));
          m.on('end', () => (m.statusCode! < 400 ? res(t ? JSON.parse(t) : null) : rej(new Error(t))));
        },
      );
      r.on('error', rej);
      r.end(data);
    });
  const med = (a: number[]) => a.toSorted((x, y) => x - y)[Math.floor(a.length / 2)]!.toFixed(1);
  try {
    const ownerId = newUserId();
    const keep = s.spec({ ownerId });
    const t0 = performance.now();
    await s.ensure(keep);
    console.log('first of an account (info, network made)', (performance.now() - t0).toFixed(1));
    for (const ports of [false, true]) {
      const bare: number[] = [],
        ours: number[] = [],
        remove: number[] = [],
        destroy: number[] = [];
      for (let i = 0; i < 10; i++) {
        const nodePorts = ports
          ? [
              { port: 22, nodePort: await f.freeNodePort() },
              { port: 8888, nodePort: await f.freeNodePort() },
            ]
          : [];
        const spec = s.spec({ ownerId, nodePorts });
        const folder = `${f.stateFolder}/bare-${randomUUID()}`;
        mkdirSync(folder, { recursive: true });
        for (const file of spec.files) writeFileSync(`${folder}/${file.name}`, file.content, { mode: file.mode });
        const { name: _, ...body } = createOptions(spec, {
          installation: f.installation,
          network: networkName(f.installation, ownerId),
          controlFolder: folder,
          gpuIds: [],
          host: f.facts,
        });
        const runBare = async () => {
          const t = performance.now();
          const { Id } = await req('POST', '/containers/create', body);
          await req('POST', `/containers/${Id}/start`);
          bare.push(performance.now() - t);
          const t2 = performance.now();
          await req('DELETE', `/containers/${Id}?force=1&v=1`);
          remove.push(performance.now() - t2);
        };
        const runOurs = async () => {
          const t = performance.now();
          await s.ensure(spec);
          ours.push(performance.now() - t);
          const t2 = performance.now();
          await f.engine.destroy(spec.id, deadline());
          destroy.push(performance.now() - t2);
        };
        for (const r of i % 2 ? [runBare, runOurs] : [runOurs, runBare]) await r();
      }
      console.log(
        ports ? 'two ports' : 'no ports',
        'bare',
        med(bare),
        'ensure',
        med(ours),
        '| remove',
        med(remove),
        'destroy',
        med(destroy),
      );
      console.log(bare.map((x) => x.toFixed(0)).join(), ours.map((x) => x.toFixed(0)).join());
    }
    const obs: number[] = [],
      again: number[] = [],
      net: number[] = [];
    for (let i = 0; i < 30; i++) {
      let t = performance.now();
      await s.observe(keep.id);
      obs.push(performance.now() - t);
      t = performance.now();
      await s.ensure(keep);
      again.push(performance.now() - t);
    }
    for (let i = 0; i < 5; i++) {
      const sp = s.spec();
      const t = performance.now();
      await s.ensure(sp);
      net.push(performance.now() - t);
    }
    console.log('observe one', med(obs), 'ensure running', med(again), 'ensure with a new network', med(net));
  } finally {
    await s.clear();
    await f.stop();
    agent.destroy();
  }
});
