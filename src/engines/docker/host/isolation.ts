/** Sets up kernel limits, the group of all instances and their packet filter, with each probe. */
import { readFile } from 'node:fs/promises';
import type { EngineLog } from '../../engine-log.ts';
import type { Isolation } from '../../contract.ts';
import type { FirewallHost, FirewallState } from '../network/firewall.ts';
import { ensureInstanceGroup } from './cgroups.ts';
import { ensureFreeMoves } from './group-moves.ts';
import { instanceGroupOf, type GroupHost } from './instance-group.ts';
import { raiseCommand, type LowLimit } from './kernel-limits.ts';
import { ensureKernelLimits, type KernelLimitsMode } from './sysctls.ts';
import type { EngineProtections } from './protections.ts';
import { makeWarnings } from './warnings.ts';

export interface IsolationConfig {
  kernelLimits: KernelLimitsMode;
  hostMemoryMiB: number;
  /** Limits of each instance; empty: none. */
  diskRates: readonly DiskRate[];
}

/** Applies to reads and to writes, each. */
export interface DiskRate {
  /** Whole block device of the engine's host, such as `/dev/sda`. */
  device: string;
  bytesPerSecond: number;
}

export interface IsolationHost extends Pick<GroupHost, 'cgroupVersion' | 'cgroupDriver'> {
  /** Why the limits of the engine's kernel cannot be read here; null: Berth runs on that kernel. */
  elsewhere: string | null;
  /** Why Berth cannot set up a control group; null: it can try. */
  noGroup: string | null;
  memoryMiB: number;
  firewall: FirewallHost;
}

export interface HostIsolation {
  shown: Omit<Isolation, keyof EngineProtections['shown'] | 'userNamespaces' | 'runtimes'>;
  /** `CgroupParent` of new containers; null: the engine's default. */
  cgroupParent: string | null;
  diskRates: readonly DiskRate[];
}

const MIB = 1024 ** 2;
const NO_SETTINGS = 'its control group for instances could not be set up';

export type EnsureFirewall = (
  host: FirewallHost,
) => Promise<FirewallState & Pick<Isolation, 'egressPolicy' | 'whyNoEgressPolicy'>>;

export type EnsureIsolation = (host: IsolationHost) => Promise<HostIsolation>;

export function makeIsolation(
  config: IsolationConfig,
  ensureFirewall: EnsureFirewall,
  log: Pick<EngineLog, 'info' | 'warn'>,
): EnsureIsolation {
  const warn = makeWarnings(log);
  let applied = '';

  return async (host) => {
    const limits = await limitsOf(host);
    const group = await groupOf(host);
    const moves = group.parent === null ? null : await ensureFreeMoves();
    warn(
      [limits, group.why, moves]
        .filter((why) => why !== null)
        .map((why) => `instances can disturb each other and this host: ${why}`)
        .join('; '),
    );
    return {
      cgroupParent: group.parent,
      diskRates: config.diskRates,
      shown: {
        kernelLimits: limits === null,
        ...(limits === null ? {} : { whyNoKernelLimits: limits }),
        hostReserve: group.why === null,
        ...(group.why === null ? {} : { whyNoHostReserve: group.why }),
        // Follows the size of the connection table, a kernel limit.
        ...(await ensureFirewall(host.firewall)),
      },
    };
  };

  async function limitsOf({ elsewhere, memoryMiB }: IsolationHost): Promise<string | null> {
    if (elsewhere !== null) return elsewhere;
    const { raised, low } = await ensureKernelLimits(memoryMiB * MIB, config.kernelLimits);
    if (raised.length > 0) log.info({ limits: raised }, 'raised limits of the kernel that instances share');
    return low.length === 0 ? null : textOf(low);
  }

  async function groupOf(host: IsolationHost): Promise<{ parent: string | null; why: string | null }> {
    const why = host.elsewhere ?? host.noGroup;
    if (why !== null) return { parent: null, why };
    const { cgroupVersion, cgroupDriver, memoryMiB } = host;
    const group = instanceGroupOf({
      cgroupVersion,
      cgroupDriver,
      memoryBytes: memoryMiB * MIB,
      reservedBytes: config.hostMemoryMiB * MIB,
      maxProcesses: await maxProcesses(),
    });
    if (group === null) return { parent: null, why: 'its engine reports no control groups' };
    // systemd keeps properties itself, and a call of systemctl for each probe would be dear.
    const settings = group.driver === 'systemd' ? JSON.stringify(group) : '';
    const failure = settings !== '' && settings === applied ? null : await ensureInstanceGroup(group);
    if (failure === null) applied = settings;
    return failure === null
      ? { parent: group.parent, why: null }
      : { parent: null, why: `${NO_SETTINGS} (${failure})` };
  }
}

const textOf = (low: readonly LowLimit[]): string =>
  `limits of its kernel that instances share are too low; the operator can raise them (${raiseCommand(low)})`;

async function maxProcesses(): Promise<number> {
  const limits = await Promise.all(
    ['pid_max', 'threads-max'].map((name) => readFile(`/proc/sys/kernel/${name}`, 'utf8').then(Number)),
  );
  return Math.min(...limits);
}
