/**
 * The host's packet filter for accounts' networks, from inside real containers. Addresses and rules
 * that a test adds to the host are removed after the test.
 */
import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { access, chmod, readFile, writeFile } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { containerName } from '../../../src/engines/labels.ts';
import { makeFirewall } from '../../../src/engines/docker/network/firewall.ts';
import {
  chainName,
  chainPlans,
  connectionLimits,
  restoreInput,
} from '../../../src/engines/docker/network/firewall-rules.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { ensureDefaultImage } from '../../fixtures/default-images.ts';
import { removeChains } from '../../../scripts/lib/packet-filter.ts';
import { deadline, echoPort, until, type Subject } from '../../conformance/subject.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';
import { inHostNetwork } from './host-network.ts';

const run = promisify(execFile);

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => ({ fixture, subject } = made));

/** In the range of link-local addresses, and no service of a cloud. */
const ADDRESS = '169.254.77.77';
const METADATA = '169.254.169.254';

const log = { info: () => {}, warn: () => {} };

/** Apart from the networks of other tests, which other chains of the host may close. */
const pool = { cidr: '10.215.0.0/20', prefix: 24 };

/** Sets up the packet filter by a probe of an engine, and returns the shown isolation. */
async function setUp(linkLocal: 'closed' | 'open') {
  subject.after(() => removeChains(fixture.installation));
  const engine = fixture.make({ networkPool: pool, linkLocal });
  return (await engine.probe(deadline())).capabilities.isolation;
}

/** Starts an instance in a network of `pool`. */
async function started(options?: Parameters<Subject['spec']>[0]): Promise<EngineSpec> {
  const spec = subject.spec(options);
  await fixture.make({ networkPool: pool }).ensure(spec, deadline());
  return spec;
}

/** Listens on the host at `ADDRESS`, an address of an interface of its own. */
async function listenOnHost(...ports: number[]): Promise<number[]> {
  const name = `berth${randomUUID().slice(0, 8)}`;
  const script = `ip link add ${name} type bridge; ip addr add ${ADDRESS}/32 dev ${name}; ip link set ${name} up`;
  subject.after(() => inHostNetwork(fixture.docker, fixture.imageRef, `ip link del ${name}`));
  await inHostNetwork(fixture.docker, fixture.imageRef, script);
  const servers = ports.map((port) => net.createServer((socket) => socket.end('secret')).listen(port, ADDRESS));
  return Promise.all(
    servers.map(async (server) => {
      subject.after(async () => server.close());
      await once(server, 'listening');
      return portOf(server);
    }),
  );
}

function portOf(server: net.Server): number {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function answerInside(spec: EngineSpec, host: string, port: number): Promise<string> {
  const { stdout, stderr } = await subject.exec(spec.id, 'nc', '-w', '2', host, String(port));
  return stdout + stderr;
}

async function addressesOf(spec: EngineSpec): Promise<{ own: string; gateway: string }> {
  const { NetworkSettings } = await fixture.inspect(spec.id);
  const [found] = Object.values(NetworkSettings.Networks);
  return { own: found?.IPAddress ?? '', gateway: found?.Gateway ?? '' };
}

/** Entries of the host's connection table that an address opened. */
async function entriesOf(address: string): Promise<number> {
  const table = await readFile('/proc/net/nf_conntrack', 'utf8');
  return table.split('\n').filter((line) => line.includes(` src=${address} `)).length;
}

describe('link-local addresses', () => {
  it('are closed from inside instances, but for name servers, unless the operator opens them', async () => {
    const spec = await started();
    const [port = 0] = await listenOnHost(0, 53);
    expect(await setUp('open')).toMatchObject({ linkLocalClosed: false, whyLinkLocalOpen: expect.any(String) });
    expect(await answerInside(spec, ADDRESS, port)).toBe('secret');
    expect(await setUp('closed')).toMatchObject({ linkLocalClosed: true });
    expect(await answerInside(spec, ADDRESS, port)).toContain('Connection refused');
    expect(await answerInside(spec, METADATA, 80)).toContain('Connection refused');
    expect(await answerInside(spec, ADDRESS, 53)).toBe('secret');
  });

  longTest('stay closed for an account whose network is made later', async () => {
    await setUp('closed');
    const spec = await started();
    expect(await answerInside(spec, METADATA, 80)).toContain('Connection refused');
  });

  it('do not exist over IPv6 in an instance', async () => {
    const spec = await started();
    const { stdout } = await subject.exec(spec.id, 'sh', '-c', 'cat /proc/net/if_inet6 2>/dev/null');
    expect(stdout.split('\n').filter((line) => line !== '' && !line.endsWith(' lo'))).toEqual([]);
  });
});

/** Sends datagrams to as many ports of a host; a port is a connection of its own. */
const FLOOD = `
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(1, int(sys.argv[2]) + 1):
    try: out.sendto(b'x', (sys.argv[1], port))
    except OSError: pass
`;

describe('the host’s connection table', () => {
  const flood = async (spec: EngineSpec, count: number): Promise<number> => {
    const { own, gateway } = await addressesOf(spec);
    const { exitCode, stderr } = await subject.exec(spec.id, 'python3', '-c', FLOOD, gateway, String(count));
    expect(exitCode, stderr).toBe(0);
    return entriesOf(own);
  };
  const withPython = async (): Promise<EngineSpec> =>
    started({ imageRef: await ensureDefaultImage(fixture.docker, 'notebook'), start: 'stubborn', memoryMiB: 256 });

  it('has a share for each account, whatever an instance sends', async () => {
    const spec = await withPython();
    expect(await setUp('closed')).toMatchObject({ connectionLimit: true });
    const { connections } = connectionLimits(
      Number(await readFile('/proc/sys/net/netfilter/nf_conntrack_max', 'utf8')),
    );
    expect(await flood(spec, connections + 10_000)).toBeLessThanOrEqual(connections);
  });

  longTest('holds no entry beyond the bound, and the account’s instances share the bound', async () => {
    const one = await withPython();
    const [mate, other] = [await started({ ownerId: one.ownerId }), await started()];
    const chain = chainName(fixture.installation);
    const limits = { connections: 100, perSecond: 1_000 };
    const { connections } = chainPlans({ chain, pool, limits, linkLocal: 'open' });
    subject.after(() => removeChains(fixture.installation));
    const restoring = run('iptables-restore', ['-w', '5', '--noflush']);
    restoring.child.stdin?.end(restoreInput(chain, connections, new Map([['PREROUTING', '']])));
    await restoring;
    const entries = await flood(one, 1_000);
    expect(entries).toBeGreaterThan(90);
    expect(entries).toBeLessThanOrEqual(100);
    const server = net.createServer((socket) => socket.end('hello')).listen(0);
    subject.after(async () => server.close());
    await once(server, 'listening');
    const host = async (spec: EngineSpec): Promise<string> =>
      answerInside(spec, (await addressesOf(spec)).gateway, portOf(server));
    expect(await host(mate)).toContain('timed out');
    expect(await host(other)).toBe('hello');
  });
});

/** `iptables` and its helpers as programs that act in a network namespace of the test's own. */
async function inOwnNetwork(variant: string): Promise<string> {
  const folder = await fixture.hostFolder();
  const holder = spawn('unshare', ['--net', 'sleep', '600'], { stdio: 'ignore' });
  subject.after(async () => void holder.kill('SIGKILL'));
  await until('the network exists', async () => {
    const [own, other] = await Promise.all(
      ['self', holder.pid].map((pid) => run('readlink', [`/proc/${pid}/ns/net`]).then(({ stdout }) => stdout)),
    );
    return own !== other;
  });
  for (const program of ['', '-restore', '-save']) {
    const file = path.join(folder, `iptables${program}`);
    await writeFile(file, `#!/bin/sh\nexec nsenter -t ${holder.pid} -n ${variant}${program} "$@"\n`);
    await chmod(file, 0o755);
  }
  return path.join(folder, 'iptables');
}

describe('the rules', () => {
  it.for(['iptables-nft', 'iptables-legacy'])(
    'are written once, and again when missing: %s',
    async (variant, context) => {
      const missing = await access(`/usr/sbin/${variant}`).then(
        () => false,
        () => true,
      );
      context.skip(missing, `the host has no ${variant}`);
      const iptables = await inOwnNetwork(variant);
      const id = randomUUID();
      const ensure = makeFirewall({ installation: id, pool, linkLocal: 'closed', log });
      const list = async (table: string): Promise<string[]> =>
        (await run(iptables, ['-t', table, '-S'])).stdout.split('\n').filter((line) => line.includes(chainName(id)));
      const all = async (): Promise<string[]> => [...(await list('mangle')), ...(await list('filter'))];
      const [state] = await Promise.all([ensure({ iptables }), ensure({ iptables })]);
      expect(state).toEqual({ connectionLimit: true, linkLocalClosed: true });
      const first = await all();
      expect(first.filter((line) => line.endsWith(` -j ${chainName(id)}`))).toHaveLength(3);
      await ensure({ iptables });
      expect(await all()).toEqual(first);
      for (const table of ['mangle', 'filter']) await run(iptables, ['-t', table, '-F']);
      expect(await all()).toEqual([`-N ${chainName(id)}`, `-N ${chainName(id)}`]);
      await ensure({ iptables });
      expect(await all()).toEqual(first);
      await removeChains(id, iptables);
      expect(await all()).toEqual([]);
    },
  );

  it('that cannot be written are reported with the reason', async () => {
    const warnings: string[] = [];
    const ensure = makeFirewall({
      installation: randomUUID(),
      pool,
      linkLocal: 'closed',
      log: { info: () => {}, warn: (text: unknown) => void warnings.push(String(text)) },
    });
    for (const _ of [1, 2])
      expect(await ensure({ whyNot: 'Berth does not run as root there' })).toEqual({
        connectionLimit: false,
        whyNoConnectionLimit: 'Berth does not run as root there',
        linkLocalClosed: false,
        whyLinkLocalOpen: 'Berth does not run as root there',
      });
    expect(await ensure({ iptables: '/bin/false' })).toMatchObject({
      whyNoConnectionLimit: expect.stringContaining('iptables refused the rules'),
    });
    expect(warnings).toHaveLength(2);
  });
});

describe('the connection table of an instance', () => {
  it('holds lookups of names alone: connections inside take no memory of the host', async () => {
    subject.after(() => removeChains(fixture.installation));
    const engine = fixture.make({ networkPool: pool, linkLocal: 'closed' });
    const spec = subject.spec();
    await engine.ensure(spec, deadline());
    const { SandboxKey } = (await fixture.inspect(spec.id)).NetworkSettings;
    const entries = async (): Promise<number> => {
      const file = '/proc/sys/net/netfilter/nf_conntrack_count';
      return Number((await run('nsenter', [`--net=${SandboxKey}`, '--', 'cat', file])).stdout);
    };
    (await subject.dial(spec.id, echoPort)).destroy();
    const connect = `for n in $(seq 50); do nc -w 1 127.0.0.1 ${echoPort} </dev/null; done`;
    expect(await subject.exec(spec.id, 'sh', '-c', connect)).toMatchObject({ exitCode: 0 });
    expect(await entries()).toBeLessThan(10);
    const lookup = await subject.exec(spec.id, 'nslookup', containerName(spec.id));
    expect(lookup.stdout).toContain((await addressesOf(spec)).own);
    expect(await entries()).toBeGreaterThan(0);
  });
});
