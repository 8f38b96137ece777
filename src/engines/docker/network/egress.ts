/**
 * Enforces egress policies in the host's packet filter: at a change, before an account's first
 * container, and with each probe, because other programs may flush the tables.
 */
import { readFile } from 'node:fs/promises';
import type { NetworkInspectInfo } from 'dockerode';
import type { EngineLog } from '../../engine-log.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import { isAllOpen, type EgressPolicies } from '../../../domain/regions/egress.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { Capabilities } from '../../contract.ts';
import { installationLabel, labels } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { makeWarnings } from '../host/warnings.ts';
import { egressChainName, egressPlan } from './egress-rules.ts';
import { ensureChain, LEFT_ALONE, type FirewallConfig, type FirewallHost } from './firewall.ts';
import { chainName } from './firewall-rules.ts';

type EgressState = Pick<Capabilities['isolation'], 'egressPolicy' | 'whyNoEgressPolicy'>;

export interface Egress {
  set(policies: EgressPolicies, signal: AbortSignal): Promise<void>;
  /** Installs the rules again if they are missing. */
  ensure(host: FirewallHost): Promise<EgressState>;
  /** Resolves once the rules cover the account's network, which may be new. */
  cover(ownerId: string, isNew: boolean, signal: AbortSignal): Promise<void>;
}

const APPLY_MS = 30_000;

interface EgressConfig extends FirewallConfig {
  client: DockerClient;
  log: Pick<EngineLog, 'info' | 'warn'>;
}

export function makeEgress({ client, installation, pool, linkLocal, log }: EgressConfig): Egress {
  const chain = egressChainName(chainName(installation));
  const semaphore = makeSemaphore(1);
  const warn = makeWarnings(log);
  let host: FirewallHost | null = null;
  let policies: EgressPolicies | null = null;
  let covered = new Set<string>();

  /** Returns null, or why the policies are not enforced. */
  async function apply(signal: AbortSignal): Promise<string | null> {
    if (linkLocal === undefined) return LEFT_ALONE;
    if (host === null || 'whyNot' in host) return host?.whyNot ?? null;
    if (policies === null) return null;
    const filters = { label: [installationLabel(installation)] };
    const listed = isAllOpen(policies)
      ? []
      : await client.call(signal, (abortSignal) => client.docker.listNetworks({ filters, abortSignal }));
    const networks = listed.flatMap(subnetsOf);
    const nameServers = policies.nameServers ?? (await hostNameServers());
    const why = await ensureChain(host, chain, egressPlan({ pool, policies, nameServers, networks }), log);
    covered = new Set(why === null ? networks.map(({ ownerId }) => ownerId) : []);
    return why;
  }

  const applyAlone = (signal: AbortSignal): Promise<string | null> => semaphore.run(() => apply(signal), { signal });
  const limits = (ownerId: string): boolean => {
    const policy = policies?.accounts.get(ownerId) ?? policies?.default;
    return policy !== undefined && policy.mode !== 'open';
  };

  return {
    async set(given, signal) {
      policies = given;
      const why = await applyAlone(signal);
      if (why !== null && !isAllOpen(given)) throw notEnforced(why);
    },
    async ensure(found) {
      host = found;
      const why = await applyAlone(AbortSignal.timeout(APPLY_MS));
      const isBroken = why !== null && policies !== null && !isAllOpen(policies);
      warn(isBroken ? `instances can open connections that their egress policy refuses: ${why}` : '');
      return why === null ? { egressPolicy: true } : { egressPolicy: false, whyNoEgressPolicy: why };
    },
    async cover(ownerId, isNew, signal) {
      if (policies === null || isAllOpen(policies)) return;
      if (!isNew && covered.has(ownerId)) return;
      const why = await applyAlone(signal);
      if (why !== null && limits(ownerId)) throw notEnforced(why);
    },
  };
}

const notEnforced = (why: string): EngineFault =>
  new EngineFault('rejected', `the egress policy of the account cannot be enforced: ${why}`, { retry: true });

const subnetsOf = ({ Labels, IPAM }: NetworkInspectInfo): { ownerId: string; subnet: string }[] => {
  const ownerId = Labels?.[labels.owner];
  return ownerId === undefined
    ? []
    : (IPAM?.Config ?? []).flatMap(({ Subnet }) => (Subnet === undefined ? [] : [{ ownerId, subnet: Subnet }]));
};

async function hostNameServers(): Promise<string[]> {
  const text = await readFile('/etc/resolv.conf', 'utf8').catch(() => '');
  return [...text.matchAll(/^nameserver\s+(\S+)/gm)].map(([, address = '']) => address);
}
