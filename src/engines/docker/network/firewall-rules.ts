/**
 * Rules for the accounts' networks in the host's packet filter (decisions 12 and 39), as input of
 * `iptables-restore`. Pure; `firewall.ts` installs. IPv6 needs none: the networks are without.
 */
import { createHash } from 'node:crypto';
import type { NetworkPool } from './subnets.ts';

/** Limits of one account's instances together. */
export interface ConnectionLimits {
  connections: number;
  /** New connections a second, after a burst of `BURST`. */
  perSecond: number;
}

export type LinkLocal = 'closed' | 'open';

export interface FirewallPlan {
  chain: string;
  pool: NetworkPool;
  limits: ConnectionLimits;
  linkLocal: LinkLocal;
}

/** Chain in one table, and the condition of the jump to it from the table's own chains. */
export interface ChainPlan {
  table: 'mangle' | 'filter';
  jump: string;
  rules: string[];
}

const BURST = 4_096;
/** Time that a closed TCP connection stays in the table: `nf_conntrack_tcp_timeout_time_wait`. */
const TIME_WAIT_S = 120;

export function connectionLimits(tableSize: number): ConnectionLimits {
  const within = (value: number, least: number, most: number): number =>
    Math.min(most, Math.max(least, Math.floor(value)));
  return {
    connections: within(tableSize / 16, 4_096, 16_384),
    perSecond: within(tableSize / 8 / TIME_WAIT_S, 100, 1_000),
  };
}

export const chainName = (installation: string): string => `BERTH-${installation.slice(0, 8)}`;

export function chainPlans({
  chain,
  pool,
  limits,
  linkLocal,
}: FirewallPlan): Record<'connections' | 'linkLocal', ChainPlan> {
  const { cidr, prefix } = pool;
  const { connections, perSecond } = limits;
  // Named by the rate: the kernel keeps the rate of a name that it knows.
  const rate = `-m hashlimit --hashlimit-name ${chain}-${perSecond} --hashlimit-mode srcip --hashlimit-srcmask ${prefix}`;
  return {
    connections: {
      table: 'mangle',
      // First packets only: a stream without answers stays NEW, and would count with each packet.
      jump: `-s ${cidr} -m conntrack --ctstate NEW ! --ctstatus CONFIRMED`,
      rules: [
        `${rate} --hashlimit-above ${perSecond}/second --hashlimit-burst ${BURST} --hashlimit-htable-expire 60000 -j DROP`,
        `-m connlimit --connlimit-above ${connections} --connlimit-mask ${prefix} --connlimit-saddr -j DROP`,
      ],
    },
    linkLocal: {
      table: 'filter',
      // Before translation: hosts may translate these addresses to a service of their own.
      jump: `-s ${cidr} -m conntrack --ctorigdst 169.254.0.0/16 --ctdir ORIGINAL`,
      rules:
        linkLocal === 'open'
          ? []
          : [
              '-p udp -m udp --dport 53 -j RETURN',
              '-p tcp -m tcp --dport 53 -j RETURN',
              '-p tcp -j REJECT --reject-with tcp-reset',
              '-j REJECT --reject-with icmp-port-unreachable',
            ],
    },
  };
}

/** Comment of a jump: differs once the planned rules do. */
export const markOf = (plan: ChainPlan): string =>
  `berth:${createHash('sha256').update(JSON.stringify(plan)).digest('hex').slice(0, 16)}`;

export const jumpsTo = (chain: string, listed: string): string[] =>
  listed.split('\n').filter((line) => line.startsWith('-A ') && line.endsWith(` -j ${chain}`));

export const hasJump = (chain: string, plan: ChainPlan, listed: string): boolean =>
  jumpsTo(chain, listed).some((line) => line.includes(markOf(plan)));

/** Writes the chain, and replaces the jumps. `own`: `iptables -S` of each chain that jumps. */
export function restoreInput(chain: string, plan: ChainPlan, own: ReadonlyMap<string, string>): string {
  const old = [...own.values()].flatMap((listed) => jumpsTo(chain, listed));
  return [
    `*${plan.table}`,
    // Declared, an existing chain is emptied.
    `:${chain} - [0:0]`,
    ...plan.rules.map((rule) => `-A ${chain} ${rule}`),
    ...old.map((line) => `-D ${line.slice(3)}`),
    ...[...own.keys()].map((from) => `-I ${from} 1 ${plan.jump} -m comment --comment ${markOf(plan)} -j ${chain}`),
    'COMMIT',
    '',
  ].join('\n');
}
