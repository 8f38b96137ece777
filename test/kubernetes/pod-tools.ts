/** What tests of clusters do with the Pods of `manifests.ts`. */
import type { Cluster } from './cluster/cluster.ts';

/** Programs of the image. */
export const applets = [
  'sh',
  'cat',
  'df',
  'echo',
  'hostname',
  'httpd',
  'mkdir',
  'nc',
  'nslookup',
  'printf',
  'sleep',
  'sync',
];

export const podTools = (cluster: () => Cluster) => ({
  untilReady: (name: string): Promise<string> =>
    cluster().kubectl(['wait', `pod/${name}`, '--for=condition=Ready', '--timeout=120s']),
  inPod: (name: string, script: string): Promise<string> => cluster().kubectl(['exec', name, '--', 'sh', '-c', script]),
});

/** The text of an answer, or of the failure. */
export const pageOf = (address: string): Promise<string> =>
  fetch(address, { signal: AbortSignal.timeout(5_000) }).then((response) => response.text(), String);
