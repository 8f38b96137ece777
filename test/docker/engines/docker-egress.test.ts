/** Egress policies on Docker, from inside real containers. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it } from 'vitest';
import type { EgressPolicies, EgressPolicy } from '../../../src/domain/regions/egress.ts';
import type { Engine, EngineSpec } from '../../../src/engines/contract.ts';
import { chainName } from '../../../src/engines/docker/network/firewall-rules.ts';
import { egressChainName } from '../../../src/engines/docker/network/egress-rules.ts';
import { removeChains } from '../../../scripts/lib/packet-filter.ts';
import { deadline, echoPort, expectFault, newUserId, until, type Subject } from '../../conformance/subject.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { ensureDefaultImage } from '../../fixtures/default-images.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';
import { OUTSIDE, startOutsideHost, TCP_ALLOWED, TCP_OTHER, UDP_ECHO } from './outside-host.ts';

const run = promisify(execFile);

let fixture: DockerFixture;
let subject: Subject;
let engine: Engine;
onDocker((made) => ({ fixture, subject } = made));

const pool = { cidr: '10.216.0.0/20', prefix: 24 };

beforeEach(async () => {
  subject.after(() => removeChains(fixture.installation));
  engine = fixture.make({ networkPool: pool, linkLocal: 'closed' });
});

const set = (policy: EgressPolicy, more: Partial<EgressPolicies> = {}): Promise<void> =>
  engine.setEgress({ default: policy, accounts: new Map(), nameServers: [OUTSIDE], ...more }, deadline());

async function started(options: Parameters<Subject['spec']>[0] = {}): Promise<EngineSpec> {
  const imageRef = await ensureDefaultImage(fixture.docker, 'notebook');
  const spec = { ...subject.spec({ imageRef, start: 'stubborn', memoryMiB: 256, ...options }), dns: [OUTSIDE] };
  await engine.ensure(spec, deadline());
  await subject.exec(spec.id, 'sh', '-c', `python3 -m http.server ${echoPort} >/dev/null 2>&1 &`);
  return spec;
}

const UDP = `
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); out.settimeout(2)
out.connect((sys.argv[1], int(sys.argv[2]))); out.send(b'ping')
try: print(out.recv(9).decode(), end='')
except OSError: print('refused', end='')
`;

const TCP = `
import socket, sys
try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 2); print('connected', end='')
except OSError: print('refused', end='')
`;

/** Sends each tenth of a second over one connection, until it ends. */
const HELD = `
import socket, sys, time
out = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
open('/tmp/held', 'w').close()
try:
    for _ in range(300):
        out.send(b'x'); out.recv(999); time.sleep(0.1)
    print('stayed', end='')
except OSError: print('cut', end='')
`;

const NAME = `
import socket
try: print(socket.gethostbyname('name.test'), end='')
except OSError: print('refused', end='')
`;

/** Answers of what the instance reaches: TCP at two ports, UDP, names, and a port of the host. */
async function reached({ id }: EngineSpec): Promise<Record<string, string>> {
  const exec = async (...command: string[]): Promise<string> => (await subject.exec(id, ...command)).stdout;
  const curl = async (host: string, port: number): Promise<string> =>
    (await exec('curl', '-s', '-m', '3', `http://${host}:${port}/`)) || 'refused';
  const [tcp, other, udp, name] = await Promise.all([
    curl(OUTSIDE, TCP_ALLOWED),
    curl(OUTSIDE, TCP_OTHER),
    exec('python3', '-c', UDP, OUTSIDE, String(UDP_ECHO)),
    exec('env', 'RES_OPTIONS=timeout:1 attempts:1', 'python3', '-c', NAME),
  ]);
  return { tcp, other, udp, name };
}

const tcp = async ({ id }: EngineSpec, port = TCP_ALLOWED): Promise<string> =>
  (await subject.exec(id, 'curl', '-s', '-m', '3', `http://${OUTSIDE}:${port}/`)).stdout || 'refused';

const everything = { tcp: 'outside', other: 'outside', udp: 'ping', name: OUTSIDE };
const nothing = { tcp: 'refused', other: 'refused', udp: 'refused', name: 'refused' };
const listed: EgressPolicy = { mode: 'list', allow: [{ cidr: `${OUTSIDE}/32`, ports: [String(TCP_ALLOWED)] }] };

describe('an egress policy', () => {
  longTest('limits what instances connect to, running ones and open connections at once', async () => {
    await startOutsideHost(subject);
    const spec = await started();
    expect((await engine.probe(deadline())).capabilities.isolation).toMatchObject({ egressPolicy: true });
    expect(await reached(spec)).toEqual(everything);

    const [mate, other] = [await started({ ownerId: spec.ownerId }), await started()];
    const held = subject.exec(spec.id, 'python3', '-c', HELD, OUTSIDE, String(TCP_OTHER));
    await until(
      'the connection is open',
      async () => (await subject.exec(spec.id, 'test', '-e', '/tmp/held')).exitCode === 0,
    );
    await set({ mode: 'none' });
    expect((await held).stdout, 'an open connection').toBe('cut');
    expect(await reached(spec)).toEqual(nothing);
    await until('the gateway reaches it', () =>
      engine.dial(spec.id, echoPort, deadline()).then(
        (socket) => Boolean(socket.destroy()),
        () => false,
      ),
    );
    const { NetworkSettings } = await fixture.inspect(mate.id);
    const [network] = Object.values(NetworkSettings.Networks);
    const toMate = await subject.exec(spec.id, 'python3', '-c', UDP, network?.IPAddress ?? '', '9');
    expect(toMate.stdout, 'the network of the account: nothing listens').toBe('refused');
    expect((await subject.exec(spec.id, 'python3', '-c', TCP, network?.IPAddress ?? '', String(echoPort))).stdout).toBe(
      'connected',
    );
    const gateway = await subject.exec(spec.id, 'python3', '-c', TCP, network?.Gateway ?? '', '22');
    expect(gateway.stdout, 'the host').toBe('refused');

    await set(listed);
    expect(await reached(spec)).toEqual({ ...nothing, tcp: 'outside', name: OUTSIDE });
    await set({ mode: 'none' }, { accounts: new Map([[spec.ownerId, { mode: 'open' }]]) });
    expect([await reached(mate), await reached(other)]).toEqual([everything, nothing]);
    await set({ mode: 'open' }, { accounts: new Map([[spec.ownerId, listed]]) });
    expect(await reached(mate)).toEqual({ ...nothing, tcp: 'outside', name: OUTSIDE });
    expect(await reached(other)).toEqual(everything);
  });

  it('holds from the first packet of a new network, and again after a flush of the tables', async () => {
    await startOutsideHost(subject);
    const ownerId = newUserId();
    await set({ mode: 'open' }, { accounts: new Map([[ownerId, { mode: 'none' }]]) });
    await engine.probe(deadline());
    const spec = await started({ ownerId });
    expect(await tcp(spec)).toBe('refused');
    const { stdout } = await run('iptables', ['-S']);
    const chain = egressChainName(chainName(fixture.installation));
    const jumps = stdout.split('\n').filter((line) => line.endsWith(`-j ${chain}`));
    expect(jumps).toHaveLength(2);
    for (const jump of jumps) await run('sh', ['-c', `iptables -w 5 ${jump.replace('-A', '-D')}`]);
    expect(await tcp(spec)).toBe('outside');
    await engine.probe(deadline());
    expect(await tcp(spec)).toBe('refused');
    await set({ mode: 'open' }, { accounts: new Map([[ownerId, listed]]) });
    expect([await tcp(spec), await tcp(spec, TCP_OTHER)]).toEqual(['outside', 'refused']);
    const again = fixture.make({ networkPool: pool, linkLocal: 'closed' });
    await again.probe(deadline());
    expect(await tcp(spec, TCP_OTHER), 'a server that has not read its policies yet').toBe('refused');
    await again.setEgress({ default: { mode: 'open' }, accounts: new Map() }, deadline());
    expect(await tcp(spec)).toBe('outside');
  });

  it('is refused by an engine that cannot enforce it, unless it is open', async () => {
    const alone = fixture.make({ networkPool: pool });
    expect((await alone.probe(deadline())).capabilities.isolation).toMatchObject({
      egressPolicy: false,
      whyNoEgressPolicy: 'its packet filter is left alone',
    });
    const policies = (policy: EgressPolicy): EgressPolicies => ({ default: policy, accounts: new Map() });
    await alone.setEgress(policies({ mode: 'open' }), deadline());
    await expectFault(alone.setEgress(policies({ mode: 'none' }), deadline()), 'rejected');
    const spec = subject.spec();
    await expectFault(alone.ensure(spec, deadline()), 'rejected');
  });
});
