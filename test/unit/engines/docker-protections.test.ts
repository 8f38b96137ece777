/** Filters of system calls, and what a region says of the protections of its engine. */
import { describe, expect, test } from 'vitest';
import { denyingFilter, instanceFilter } from '../../../src/engines/docker/container/call-filter.ts';
import { createOptions } from '../../../src/engines/docker/container/create-options.ts';
import { protectionsOf } from '../../../src/engines/docker/host/protections.ts';
import { hostFacts } from './host-facts.ts';
import { specOf } from './simulated-spec.ts';

interface Rule {
  names: string[];
  action: string;
  args?: { index: number; value: number; op: string }[];
}
const rulesOf = (filter: string): Rule[] => JSON.parse(filter).syscalls;

/** Action of a filter for a call by its first argument. */
function actionOf(filter: string, name: string, argument = 0): string {
  const rules = rulesOf(filter).filter(({ names }) => names.includes(name));
  const matches = ({ value, op }: { value: number; op: string }): boolean =>
    op === 'SCMP_CMP_EQ' ? argument === value : op === 'SCMP_CMP_GT' && argument > value;
  const found = rules.find(({ args = [] }) => args.every(matches));
  return found?.action ?? JSON.parse(filter).defaultAction;
}

const unused = ['io_uring_setup', 'io_uring_enter', 'io_uring_register', 'socketcall'];
const families = Array.from({ length: 64 }, (_, family) => family);
const opened = (filter: string): number[] =>
  families.filter((family) => actionOf(filter, 'socket', family) === 'SCMP_ACT_ALLOW');

describe.for([
  { what: 'an instance', filter: instanceFilter },
  { what: 'a daemon', filter: denyingFilter(['io_uring_setup', 'io_uring_enter', 'io_uring_register']) },
])('the filter of $what', ({ filter }) => {
  test('opens sockets of networks, Unix and netlink alone, also by a 32-bit call', () => {
    expect(opened(filter)).toEqual([0, 1, 2, 10, 16, 17]);
    for (const name of unused) expect(actionOf(filter, name), name).toBe('SCMP_ACT_ERRNO');
  });
});

test('the filter of an instance refuses what it does not name', () => {
  for (const name of ['bpf', 'mount', 'unshare', 'setns', 'keyctl', 'userfaultfd', 'perf_event_open', 'no_such_call'])
    expect(actionOf(instanceFilter, name), name).toBe('SCMP_ACT_ERRNO');
  for (const name of ['ptrace', 'process_vm_readv', 'chroot', 'memfd_create', 'rseq', 'landlock_create_ruleset'])
    expect(actionOf(instanceFilter, name), name).toBe('SCMP_ACT_ALLOW');
});

describe('an engine', () => {
  const docker = { podman: false, architecture: 'amd64', securityOptions: ['name=seccomp,profile=default'] };

  test.for([
    { what: 'without AppArmor', facts: {}, sets: true, module: false },
    { what: 'of today', facts: { securityOptions: ['name=apparmor', 'name=seccomp,profile=builtin'] }, sets: true },
    { what: 'with SELinux', facts: { securityOptions: ['name=selinux', 'name=seccomp,profile=default'] }, sets: true },
    { what: 'without seccomp', facts: { securityOptions: ['name=apparmor'] }, why: /no seccomp/ },
    { what: 'that is Podman', facts: { podman: true }, why: /Podman/, module: false },
    {
      what: 'with the filter of its operator',
      facts: { securityOptions: ['name=apparmor', 'name=seccomp,profile=/etc/docker/seccomp.json'] },
      why: /\(\/etc\/docker\/seccomp\.json\)/,
    },
    { what: 'of another architecture', facts: { architecture: 'riscv64' }, why: /riscv64/, module: false },
  ])('$what says which protections it lacks', ({ facts, sets = false, module = true, why }) => {
    const { setsCallFilter, shown } = protectionsOf({ ...docker, ...facts });
    expect(setsCallFilter).toBe(sets);
    expect(shown).toEqual({
      callFilter: sets,
      ...(why === undefined ? {} : { whyNoCallFilter: expect.stringMatching(why) }),
      securityModule: module,
      ...(module ? {} : { whyNoSecurityModule: expect.stringMatching(/AppArmor/) }),
    });
  });

  test.for([true, false])('gives instances the filter of Berth where it can: %s', (setsCallFilter) => {
    const host = hostFacts({ setsCallFilter });
    const context = { installation: 'i', network: 'n', controlFolder: '/c', gpuIds: [], host };
    expect(createOptions(specOf('filtered'), context).HostConfig?.SecurityOpt).toEqual([
      'no-new-privileges',
      ...(setsCallFilter ? [`seccomp=${instanceFilter}`] : []),
    ]);
    const { HostConfig } = createOptions(specOf('sudo'), { ...context, sudo: true });
    expect(HostConfig?.SecurityOpt).toEqual(setsCallFilter ? [`seccomp=${instanceFilter}`] : []);
  });
});
