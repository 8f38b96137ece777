/** Rules of egress policies, and the ports that they accept: pure. */
import { expect, test } from 'vitest';
import { refusalOfPorts, type EgressPolicy, type EgressRange } from '../../../src/domain/regions/egress.ts';
import { egressPlan } from '../../../src/engines/docker/network/egress-rules.ts';

const pool = { cidr: '10.210.0.0/15', prefix: 24 };
const networks = [
  { ownerId: 'bob', subnet: '10.210.2.0/24' },
  { ownerId: 'ann', subnet: '10.210.1.0/24' },
];
const rulesOf = (policy: EgressPolicy, accounts: [string, EgressPolicy][] = []): string[] =>
  egressPlan({
    pool,
    networks,
    nameServers: ['192.0.2.53', '127.0.0.53', '2001:db8::53'],
    policies: { default: policy, accounts: new Map(accounts) },
  }).rules;

const OWN = [
  '-m conntrack --ctdir REPLY -j RETURN',
  '-s 10.210.1.0/24 -d 10.210.1.0/24 -j RETURN',
  '-s 10.210.2.0/24 -d 10.210.2.0/24 -j RETURN',
];
const REJECT = ['-p tcp -j REJECT --reject-with tcp-reset', '-j REJECT --reject-with icmp-admin-prohibited'];

test('open policies need no rule', () => {
  expect(rulesOf({ mode: 'open' }, [['ann', { mode: 'open' }]])).toEqual([]);
});

test('none rejects all but answers and the account’s own network', () => {
  expect(rulesOf({ mode: 'none' })).toEqual([...OWN, ...REJECT]);
});

test('a list allows its ranges, and name servers that instances reach themselves', () => {
  const allow: EgressRange[] = [
    { cidr: '203.0.113.0/24', ports: ['443', '8000-8100'], protocol: 'tcp' },
    { cidr: '198.51.100.7', protocol: 'udp' },
    { cidr: '10.0.0.0/8' },
  ];
  expect(rulesOf({ mode: 'list', allow })).toEqual([
    ...OWN,
    '-d 192.0.2.53/32 -p tcp -m tcp --dport 53 -j RETURN',
    '-d 192.0.2.53/32 -p udp -m udp --dport 53 -j RETURN',
    '-p tcp -m conntrack --ctorigdst 203.0.113.0/24 --ctorigdstport 443 -j RETURN',
    '-p tcp -m conntrack --ctorigdst 203.0.113.0/24 --ctorigdstport 8000:8100 -j RETURN',
    '-p udp -m conntrack --ctorigdst 198.51.100.7 -j RETURN',
    '-m conntrack --ctorigdst 10.0.0.0/8 -j RETURN',
    ...REJECT,
  ]);
});

test('the policy of an account comes before the default', () => {
  expect(rulesOf({ mode: 'none' }, [['bob', { mode: 'open' }]])).toEqual([
    ...OWN,
    '-s 10.210.2.0/24 -j RETURN',
    ...REJECT,
  ]);
  expect(rulesOf({ mode: 'open' }, [['ann', { mode: 'none' }]])).toEqual([
    ...OWN,
    ...REJECT.map((rule) => `-s 10.210.1.0/24 ${rule}`),
    '-j RETURN',
  ]);
});

test('takes ports and ranges of ports', () => {
  expect(['443', '8000-8100', '65535'].map(refusalOfPorts)).toEqual([null, null, null]);
  for (const wrong of ['0', '9-8', '65536', 'https', '1-70000', ''])
    expect(refusalOfPorts(wrong)).toContain('is no port');
});
