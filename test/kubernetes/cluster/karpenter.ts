/**
 * Karpenter on a cluster of the tests, with its own provider: nodes without machines, by KWOK,
 * where Pods are Running at once. Its one pool begins at zero nodes.
 */
import { spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ensureKarpenter } from '../../../scripts/lib/karpenter.mjs';
import type { Cluster } from './cluster.ts';

export const karpenter = await ensureKarpenter();
/** Labels of the pool's nodes. */
export const POOL = { 'example.org/pool': 'notebooks' };
export const GPU = { resource: 'example.org/gpu', nameLabel: 'example.org/gpu.product', model: 'L4' };

const quantities = { pods: '110', 'ephemeral-storage': '20Gi' };
/** Of each, Karpenter keeps a tenth of a core. */
const instanceTypes = [
  { name: 'small-2', price: 1, resources: { cpu: '2', memory: '4Gi', ...quantities } },
  { name: 'large-4', price: 1.9, resources: { cpu: '4', memory: '8Gi', ...quantities } },
  { name: 'gpu-4', price: 9, resources: { cpu: '4', memory: '16Gi', [GPU.resource]: '2', ...quantities } },
];

const offeringOf = (price: number): object => ({
  Price: price,
  Available: true,
  Requirements: [
    { key: 'karpenter.sh/capacity-type', operator: 'In', values: ['on-demand'] },
    { key: 'topology.kubernetes.io/zone', operator: 'In', values: ['here'] },
  ],
});

const nodeClass = { group: 'karpenter.kwok.sh', kind: 'KWOKNodeClass', name: 'default' };
const nodePool = {
  apiVersion: 'karpenter.sh/v1',
  kind: 'NodePool',
  metadata: { name: 'notebooks' },
  spec: {
    template: {
      metadata: { labels: { ...POOL, [GPU.nameLabel]: GPU.model } },
      spec: {
        requirements: [{ key: 'karpenter.sh/capacity-type', operator: 'In', values: ['on-demand'] }],
        nodeClassRef: nodeClass,
        expireAfter: 'Never',
      },
    },
    disruption: {
      consolidationPolicy: 'WhenEmptyOrUnderutilized',
      consolidateAfter: '2s',
      budgets: [{ nodes: '100%' }],
    },
  },
};

export interface Karpenter {
  /** Names of the nodes of the pool. */
  nodes(): Promise<string[]>;
  log(): Promise<string>;
  stop(): Promise<void>;
}

export async function startKarpenter(cluster: Cluster): Promise<Karpenter> {
  if ('why' in karpenter) throw new Error(`Karpenter cannot start: ${karpenter.why}.`);
  const folder = await mkdtemp(path.join(tmpdir(), 'karpenter-'));
  const file = (name: string): string => path.join(folder, name);
  await cluster.apply(await readFile(karpenter.resources, 'utf8'));
  await cluster.kubectl(['wait', 'crd', '--all', '--for=condition=Established', '--timeout=60s']);
  await cluster.simulateNodes(0);
  await writeFile(file('kubeconfig'), cluster.kubeconfig, { mode: 0o600 });
  const types = instanceTypes.map(({ price, ...type }) => ({
    ...type,
    offerings: [offeringOf(price)],
    architecture: 'amd64',
    operatingSystems: ['linux'],
  }));
  await writeFile(file('types.json'), JSON.stringify(types));
  const log = openSync(file('log'), 'a');
  const child = spawn(karpenter.program, {
    stdio: ['ignore', log, log],
    env: {
      KUBECONFIG: file('kubeconfig'),
      INSTANCE_TYPES_FILE_PATH: file('types.json'),
      DISABLE_LEADER_ELECTION: 'true',
      SYSTEM_NAMESPACE: 'kube-system',
      METRICS_PORT: '0',
      HEALTH_PROBE_PORT: '0',
    },
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  await cluster.apply(
    { apiVersion: 'karpenter.kwok.sh/v1alpha1', kind: nodeClass.kind, metadata: { name: nodeClass.name } },
    nodePool,
  );
  const selector = Object.entries(POOL).map(([name, value]) => `${name}=${value}`);
  return {
    async nodes() {
      const names = await cluster.kubectl(['get', 'nodes', '-l', selector.join(), '-o', 'name']);
      return names.split('\n').filter((name) => name !== '');
    },
    log: () => readFile(file('log'), 'utf8'),
    async stop() {
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}
