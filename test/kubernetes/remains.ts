/** What a cluster has on this machine outside of its own namespaces. */
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { promisify } from 'node:util';
import { layoutOf, overlappingRoute } from './cluster/addresses.ts';

const run = promisify(execFile);

export type Remains = Record<
  'processes' | 'mounts' | 'interfaces' | 'routes' | 'packetFilterRules' | 'controlGroups' | 'loopDevices' | 'folders',
  readonly string[]
>;

/** Network namespace of a process. */
export const networkOf = (pid: number | string): Promise<string> => readlink(`/proc/${pid}/ns/net`).catch(() => '');

/** @param network the node's network namespace */
export async function remainsOf(number: number, network: string): Promise<Remains> {
  const layout = layoutOf(number);
  const { stdout: routes } = await run('ip', ['route', 'show', 'table', 'all']);
  const { stdout: rules } = await run('iptables-save');
  const mounts = await readFile('/proc/self/mountinfo', 'utf8');
  const processes: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '');
    if (new RegExp(`/${layout.name}(-\\d)?/`).test(groups) || (await networkOf(pid)) === network) processes.push(pid);
  }
  const loopDevices: string[] = [];
  for (const device of await readdir('/sys/block')) {
    const backing = await readFile(`/sys/block/${device}/loop/backing_file`, 'utf8').catch(() => '');
    if (backing.includes(`/${layout.name}/`)) loopDevices.push(`${device}: ${backing}`);
  }
  const route = overlappingRoute(layout, routes);
  return {
    processes,
    mounts: mounts.split('\n').filter((line) => line.includes(layout.name)),
    interfaces: (await readdir('/sys/class/net')).filter((name) => name === layout.name),
    routes: route === undefined ? [] : [route],
    packetFilterRules: rules.split('\n').filter((line) => /KUBE-|POLICY-|CNI-|10\.9[6-9]\./.test(line)),
    controlGroups: globSync(`/sys/fs/cgroup/{,*/}${layout.name}{,-?}`),
    loopDevices,
    folders: globSync(`/tmp/${layout.name}-*`),
  };
}

export const nothing: Remains = {
  processes: [],
  mounts: [],
  interfaces: [],
  routes: [],
  packetFilterRules: [],
  controlGroups: [],
  loopDevices: [],
  folders: [],
};
