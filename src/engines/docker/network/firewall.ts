/** Installs `firewall-rules.ts`, and again once missing: other programs may flush the tables. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { EngineLog } from '../../engine-log.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import type { Capabilities } from '../../contract.ts';
import { makeWarnings } from '../host/warnings.ts';
import { runWithInput } from './run-with-input.ts';
import {
  chainName,
  chainPlans,
  connectionLimits,
  hasJump,
  jumpsTo,
  restoreInput,
  type ChainPlan,
  type FirewallPlan,
  type LinkLocal,
} from './firewall-rules.ts';

const run = promisify(execFile);

const COMMAND = { timeout: 10_000, maxBuffer: 64 * 1024 * 1024 };
/** Waits 5 s for another program that changes the tables. */
const WAIT = ['-w', '5'];

const TABLE_SIZE = '/proc/sys/net/netfilter/nf_conntrack_max';
/** Assumed until the kernel loads the table. */
const SMALL_TABLE = 65_536;

export interface FirewallConfig extends Pick<FirewallPlan, 'pool'> {
  installation: string;
  linkLocal: LinkLocal | undefined;
  log: Pick<EngineLog, 'info' | 'warn'>;
}

export type FirewallHost = { iptables: string } | { whyNot: string };

export type FirewallState = Pick<
  Capabilities['isolation'],
  'connectionLimit' | 'whyNoConnectionLimit' | 'linkLocalClosed' | 'whyLinkLocalOpen'
>;

export function makeFirewall({
  installation,
  pool,
  linkLocal,
  log,
}: FirewallConfig): (host: FirewallHost) => Promise<FirewallState> {
  const chain = chainName(installation);
  // One at a time: two installations at once would leave two jumps.
  const semaphore = makeSemaphore(1);
  const warn = makeWarnings(log);

  async function ensure(host: FirewallHost): Promise<FirewallState> {
    if (linkLocal === undefined) return stateOf(LEFT_ALONE, LEFT_ALONE);
    const limits = connectionLimits(await tableSize());
    const plans = chainPlans({ chain, pool, limits, linkLocal });
    const noLimit = await ensureChain(host, chain, plans.connections, log);
    const noFilter = await ensureChain(host, chain, plans.linkLocal, log);
    const whys = [
      ...(noLimit === null ? [] : [`an account can use up the connection table of this host: ${noLimit}`]),
      ...(noFilter === null ? [] : [`instances can reach link-local addresses such as cloud metadata: ${noFilter}`]),
    ];
    warn(whys.join('; '));
    return stateOf(noLimit, linkLocal === 'open' ? 'its operator opened them (BERTH_LINK_LOCAL=open)' : noFilter);
  }

  return (host) => semaphore.run(() => ensure(host));
}

export const LEFT_ALONE = 'its packet filter is left alone';

/** Returns null, or why the chain is not as planned. A chain without rules is not made. */
export async function ensureChain(
  host: FirewallHost,
  chain: string,
  plan: ChainPlan,
  log: Pick<EngineLog, 'info'>,
): Promise<string | null> {
  if ('whyNot' in host) return host.whyNot;
  try {
    const own = await ownRules(host.iptables, plan.table);
    const listed = [...own.values()];
    if (listed.every((one) => hasJump(chain, plan, one))) return null;
    if (plan.rules.length === 0 && listed.every((one) => jumpsTo(chain, one).length === 0)) return null;
    await restore(host.iptables, restoreInput(chain, plan, own));
    log.info({ chain, table: plan.table }, 'set up the packet filter for the networks of instances');
    return null;
  } catch (error) {
    return `iptables refused the rules for its networks (${reasonOf(error)})`;
  }
}

const stateOf = (noLimit: string | null, whyOpen: string | null): FirewallState => ({
  connectionLimit: noLimit === null,
  ...(noLimit === null ? {} : { whyNoConnectionLimit: noLimit }),
  linkLocalClosed: whyOpen === null,
  ...(whyOpen === null ? {} : { whyLinkLocalOpen: whyOpen }),
});

function reasonOf(error: unknown): string {
  const [command = '', words] = errorText(error).split('\n');
  return words || command;
}

async function ownRules(iptables: string, table: ChainPlan['table']): Promise<Map<string, string>> {
  const list = async (chain: string): Promise<string> =>
    (await run(iptables, [...WAIT, '-t', table, '-S', chain], COMMAND)).stdout;
  if (table === 'mangle') return new Map([['PREROUTING', await list('PREROUTING')]]);
  // Docker inserts rules for each new network in front of FORWARD, but after this chain.
  const forwarded = await list('DOCKER-USER').then(
    (listed): [string, string] => ['DOCKER-USER', listed],
    async (): Promise<[string, string]> => ['FORWARD', await list('FORWARD')],
  );
  return new Map([['INPUT', await list('INPUT')], forwarded]);
}

const restore = (iptables: string, input: string): Promise<void> =>
  runWithInput(`${iptables}-restore`, [...WAIT, '--noflush'], input, COMMAND);

async function tableSize(): Promise<number> {
  const size = Number(await readFile(TABLE_SIZE, 'utf8').catch(() => ''));
  return size > 0 ? size : SMALL_TABLE;
}
