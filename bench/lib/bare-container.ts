/** Options of a copy of Berth's container for a bare client: other name, ports and folders. */
import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type Docker from 'dockerode';

const CONTROL = '/etc/berth';
const DATA = '/root/dataDisk';

/** Creates the folders; returns the options of the create call. */
export async function bareOptions(
  model: Docker.ContainerInspectInfo,
  { name, folder, firstPort }: { name: string; folder: string; firstPort: number },
): Promise<Docker.ContainerCreateOptions> {
  const control = model.Mounts.find(({ Destination }) => Destination === CONTROL)?.Source ?? '';
  const sources: Record<string, string> = { [CONTROL]: join(folder, 'control'), [DATA]: join(folder, 'data') };
  await cp(control, join(folder, 'control'), { recursive: true });
  await mkdir(join(folder, 'data'), { recursive: true });
  const ports = Object.keys(model.HostConfig.PortBindings ?? {}).map(
    (port, index): [string, { HostIp: string; HostPort: string }[]] => [
      port,
      [{ HostIp: '127.0.0.1', HostPort: String(firstPort + index) }],
    ],
  );
  const mounts = (model.HostConfig.Mounts ?? []).map((mount) => ({
    ...mount,
    Source: sources[mount.Target] ?? mount.Source,
  }));
  return {
    ...model.Config,
    name,
    Hostname: name.slice(-20),
    Labels: { 'berth.bench': 'bare' },
    HostConfig: { ...model.HostConfig, PortBindings: Object.fromEntries(ports), Mounts: mounts },
  };
}
