/** Rules of the host's packet filter for accounts' networks: pure. */
import { describe, expect, test } from 'vitest';
import {
  chainName,
  chainPlans,
  connectionLimits,
  hasJump,
  markOf,
  restoreInput,
  type FirewallPlan,
} from '../../../src/engines/docker/network/firewall-rules.ts';

const chain = chainName('434ce85c-0000-4000-8000-000000000000');
const plan: FirewallPlan = {
  chain,
  pool: { cidr: '10.210.0.0/15', prefix: 24 },
  limits: { connections: 16_384, perSecond: 273 },
  linkLocal: 'closed',
};

describe('the limit of connections', () => {
  test('is a share of the table, within bounds', () => {
    expect(connectionLimits(262_144)).toEqual({ connections: 16_384, perSecond: 273 });
    expect(connectionLimits(131_072)).toEqual({ connections: 8_192, perSecond: 136 });
    expect(connectionLimits(16_384)).toEqual({ connections: 4_096, perSecond: 100 });
    expect(connectionLimits(4_000_000)).toEqual({ connections: 16_384, perSecond: 1_000 });
  });
});

describe('the rules', () => {
  test('bound new connections of each account, and reject link-local addresses', () => {
    const { connections, linkLocal } = chainPlans(plan);
    expect(restoreInput(chain, connections, new Map([['PREROUTING', '-P PREROUTING ACCEPT\n']]))).toBe(`*mangle
:BERTH-434ce85c - [0:0]
-A BERTH-434ce85c -m hashlimit --hashlimit-name BERTH-434ce85c-273 --hashlimit-mode srcip --hashlimit-srcmask 24 --hashlimit-above 273/second --hashlimit-burst 4096 --hashlimit-htable-expire 60000 -j DROP
-A BERTH-434ce85c -m connlimit --connlimit-above 16384 --connlimit-mask 24 --connlimit-saddr -j DROP
-I PREROUTING 1 -s 10.210.0.0/15 -m conntrack --ctstate NEW ! --ctstatus CONFIRMED -m comment --comment ${markOf(connections)} -j BERTH-434ce85c
COMMIT
`);
    const own = new Map([
      ['INPUT', '-P INPUT ACCEPT\n'],
      ['DOCKER-USER', '-N DOCKER-USER\n-A DOCKER-USER -j RETURN\n'],
    ]);
    const jump = `-s 10.210.0.0/15 -m conntrack --ctorigdst 169.254.0.0/16 --ctdir ORIGINAL -m comment --comment ${markOf(linkLocal)} -j BERTH-434ce85c`;
    expect(restoreInput(chain, linkLocal, own)).toBe(`*filter
:BERTH-434ce85c - [0:0]
-A BERTH-434ce85c -p udp -m udp --dport 53 -j RETURN
-A BERTH-434ce85c -p tcp -m tcp --dport 53 -j RETURN
-A BERTH-434ce85c -p tcp -j REJECT --reject-with tcp-reset
-A BERTH-434ce85c -j REJECT --reject-with icmp-port-unreachable
-I INPUT 1 ${jump}
-I DOCKER-USER 1 ${jump}
COMMIT
`);
  });

  test('reject nothing once the operator opens link-local addresses', () => {
    const { linkLocal } = chainPlans({ ...plan, linkLocal: 'open' });
    expect(linkLocal.rules).toEqual([]);
    expect(markOf(linkLocal)).not.toBe(markOf(chainPlans(plan).linkLocal));
  });

  test('replace jumps of earlier rules, and no jump of others', () => {
    const { connections } = chainPlans(plan);
    const earlier = chainPlans({ ...plan, limits: { connections: 4_096, perSecond: 100 } }).connections;
    const jump = (of: typeof connections, to: string): string =>
      `-A PREROUTING ${of.jump} -m comment --comment "${markOf(of)}" -j ${to}`;
    const listed = ['-P PREROUTING ACCEPT', jump(earlier, chain), jump(earlier, `${chain}x`), ''].join('\n');
    expect([hasJump(chain, connections, listed), hasJump(chain, earlier, listed)]).toEqual([false, true]);
    expect(hasJump('BERTH-0', earlier, listed), 'the same rules of another installation').toBe(false);
    const removed = restoreInput(chain, connections, new Map([['PREROUTING', listed]]))
      .split('\n')
      .filter((line) => line.startsWith('-D'));
    expect(removed).toEqual([jump(earlier, chain).replace('-A', '-D')]);
  });
});
