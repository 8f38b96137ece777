/** Several clusters, and the ends of a cluster: by `stop`, and with the process that started it. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../fixtures/server-process.ts';
import { clusterCount } from './cluster/addresses.ts';
import { startCluster, type Cluster, type ClusterOptions } from './cluster/cluster.ts';
import { busyboxArchive } from './cluster/image-archive.ts';
import { claim, image, nodePortService, pod, sleeps } from './manifests.ts';
import { networkOf, nothing, remainsOf } from './remains.ts';

async function start(options: ClusterOptions): Promise<Cluster> {
  const cluster = await startCluster(options);
  onTestFinished(() => cluster.stop());
  await cluster.importImage(await busyboxArchive(image, ['sh', 'cat', 'echo', 'httpd', 'mkdir', 'sleep', 'sync']));
  return cluster;
}

const untilReady = (cluster: Cluster, name: string): Promise<string> =>
  cluster.kubectl(['wait', `pod/${name}`, '--for=condition=Ready', '--timeout=120s']);

test('runs two clusters at once, each with Pods and node ports of its own', async () => {
  const clusters = await Promise.all([start({ addons: [] }), start({ addons: [] })]);
  expect(new Set(clusters.map(({ number }) => number)).size).toBe(2);
  const page = ({ nodeAddress }: Cluster): Promise<string> =>
    fetch(`http://${nodeAddress}:30080`, { signal: AbortSignal.timeout(5_000) }).then((one) => one.text(), String);
  for (const cluster of clusters) {
    const serves = `mkdir /www; echo ${cluster.number} >/www/index.html; exec httpd -f -p 8080 -h /www`;
    await cluster.apply(pod('web', { command: ['sh', '-c', serves] }), nodePortService('web', 30080));
    await untilReady(cluster, 'web');
    await until(
      () => page(cluster),
      (said) => said === `${cluster.number}\n`,
    );
  }
  const [first, second] = clusters;
  const network = await networkOf(first.nodePid);
  await first.stop();
  expect(await remainsOf(first.number, network)).toEqual(nothing);
  expect(await page(second)).toBe(`${second.number}\n`);
});

test('keeps its objects and volumes in a folder', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'kept-cluster-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  // A number that others take last, since it is free for a moment.
  const options = { folder, addons: ['storage'], number: clusterCount - 1 } as const;
  const before = await start(options);
  await before.apply(claim('data', '64Mi'), pod('writer', { command: sleeps, claim: 'data' }));
  await untilReady(before, 'writer');
  await before.kubectl(['exec', 'writer', '--', 'sh', '-c', 'echo kept >/data/note && sync']);
  await before.stop();

  const after = await start(options);
  // The container of the Pod is made again.
  const note = (): Promise<string> => after.kubectl(['exec', 'writer', '--', 'cat', '/data/note']).catch(String);
  expect(await until(note, (text) => !text.includes('Error'))).toBe('kept\n');
});

test('ends with the process that started it, even by SIGKILL', async () => {
  const module = path.join(import.meta.dirname, 'cluster/cluster.ts');
  const program = `
    const { startCluster } = await import(${JSON.stringify(module)});
    const { number, nodePid } = await startCluster({ addons: [] });
    console.log(number, nodePid);`;
  const starter = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const line = await new Promise<string>((resolve, reject) => {
    createInterface(starter.stdout).once('line', resolve);
    starter.once('exit', (code) => reject(new Error(`the starter ended with ${code}`)));
  });
  const [number = NaN, pid = NaN] = line.split(' ').map(Number);
  const network = await networkOf(pid);
  expect((await remainsOf(number, network)).processes).not.toEqual([]);
  starter.kill('SIGKILL');
  await until(
    () => remainsOf(number, network),
    (remains) => Object.values(remains).every((of) => of.length === 0),
  );
});
