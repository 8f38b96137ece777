/**
 * OpenSSH's programs on the node port of 22 of a Pod whose image has no sshd: the front of the
 * gateway, and the relay in the Pod's network.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeSshHostKeys } from '../../../src/control/access/routing/ssh-host-key.ts';
import { makeSshFronts, type SshFronts } from '../../../src/edge/ssh/fronts.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { podName } from '../../../src/engines/kubernetes/manifests/object-names.ts';
import { resources } from '../../../src/kubernetes/api-resources.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { makeSshUser, type Ran, type SshUser } from '../../fixtures/ssh-user.ts';
import { deadline, expectFault, loopbackPort, makeSubject, until, type Subject } from '../../conformance/subject.ts';
import { makeKubernetesFixture, processesOf, type KubernetesFixture } from './kubernetes-fixture.ts';

const hostKey = makeSshHostKeys(randomBytes(32));
const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

let fixture: KubernetesFixture;
let subject: Subject;
let user: SshUser;
let fronts: SshFronts;
let spec: EngineSpec;
let nodePort: number;

beforeAll(async () => {
  fixture = await makeKubernetesFixture({ joinsNetworks: true });
  subject = makeSubject(fixture);
  user = await makeSshUser('ed25519', [], fixture.nodePortAddress);
  nodePort = await fixture.releaseNodePort();
  spec = subject.spec({ nodePorts: [{ port: 22, nodePort }] });
  await subject.ensure(spec);
  fronts = makeFronts();
});

afterAll(async () => {
  await fronts?.stop();
  await subject?.clear();
  await user?.remove();
  await fixture?.stop();
});

function makeFronts(backend = fixture.engine): SshFronts {
  const made = makeSshFronts({
    backend,
    access: async (id) => ({
      account: { accountId: spec.ownerId, username: 'alice' },
      hostKey: hostKey(id),
      keys: [user.publicKey.split(' ')[1] ?? ''],
      authorities: [],
      principals: ['root'],
    }),
    recordLogin: async () => {},
    log,
    files: 1_000,
  });
  const ids = { instanceId: spec.id, ownerId: spec.ownerId, regionId: 'cluster' };
  const route = {
    ...ids,
    access: new Map(),
    nodePorts: new Map(),
    notebookToken: '',
    sshFront: true,
    notebook: null,
    wake: 'off' as const,
  };
  made.update({ snapshot: null, routes: [{ ...route, running: true, status: 'Running' }], gone: [] });
  return made;
}

const ssh = (line: string, stdin?: string): Promise<Ran> => user.sh(nodePort, `$SSH ${line}`, stdin);

/** The front follows the instance with a back-off of at most 15 s. */
const untilServed = (): Promise<Ran> =>
  until('ssh is served', async () => {
    const ran = await ssh("'echo served'");
    return ran.stdout === 'served\n' && ran;
  });

test('a command over a node port has its output, input and exit code, and -L reaches loopback inside', async () => {
  await untilServed();
  expect(await ssh("'cat; echo err >&2; exit 7'", 'input')).toEqual({ code: 7, stdout: 'input', stderr: 'err\n' });
  await expectFault(fixture.engine.dial(spec.id, loopbackPort, deadline()), 'busy');
  const local = await freePort();
  const forwarded = user.begin(nodePort, `$SSH -N -o ExitOnForwardFailure=yes -L ${local}:localhost:${loopbackPort}`);
  const page = await until('the page answers', () =>
    fetch(`http://127.0.0.1:${local}/none`).then(
      ({ status }) => status,
      () => false as const,
    ),
  );
  expect(page).toBe(404);
  forwarded.child.kill();
  await forwarded.ended;
});

test('a terminal has its size, -R is reached from inside, and large transfers arrive whole', async () => {
  await untilServed();
  // The API sets the size after the command's start.
  const sized = '$SSH -tt "until stty size 2>/dev/null | grep . ; do sleep 0.1; done; exit 3"';
  const terminal = user.begin(nodePort, sized, { columns: 97, rows: 31 });
  expect(await terminal.ended).toMatchObject({ code: 3, stdout: expect.stringContaining('31 97') as string });

  const server = net.createServer((socket) => socket.end('from outside')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const reached = await ssh(`-o ExitOnForwardFailure=yes -R 7300:127.0.0.1:${port} 'nc 127.0.0.1 7300'`);
  server.close();
  expect(reached).toEqual({ code: 0, stdout: 'from outside', stderr: '' });

  const line = `cd $DIR && head -c 20000000 /dev/urandom >sent && $SSH 'cat >/tmp/kept' <sent &&
    $SSH 'cat /tmp/kept' >back && cmp sent back && echo same`;
  expect(await user.sh(nodePort, line)).toEqual({ code: 0, stdout: 'same\n', stderr: '' });
});

test('is served again, with the same host key, after a restart of the instance', async () => {
  await untilServed();
  const key = await user.knownHost(nodePort);
  const open = user.begin(nodePort, "$SSH 'echo on; sleep 600'");
  await until('the session is open', async () => open.said().includes('on'));
  await fixture.engine.halt(spec.id, 5_000, deadline());
  expect((await open.ended).code).not.toBe(0);
  await subject.ensure(spec);
  await untilServed();
  expect(await user.knownHost(nodePort)).toBe(key);
});

test('is served again by another container after the network container was killed', async () => {
  await untilServed();
  const containers = async (): Promise<string[]> => {
    const pod = await fixture.client.get(resources.pods, podName(spec.id), deadline());
    return (pod?.status?.ephemeralContainerStatuses ?? []).map(
      ({ name, state }) => `${name} ${Object.keys(state ?? {}).join()}`,
    );
  };
  expect(await containers()).toEqual(['berth-network-1 running']);
  const pod = await fixture.client.get(resources.pods, podName(spec.id), deadline());
  const relays = (await processesOf(pod?.metadata?.uid ?? '')).filter(({ user: id }) => id === 10_001);
  // The idle shell, which is PID 1 of its container, and a relay.
  expect(relays.length).toBeGreaterThanOrEqual(2);
  for (const { pid, isFirst } of relays) if (isFirst) process.kill(pid, 'SIGKILL');
  await until('the container has ended', async () => (await containers())[0] === 'berth-network-1 terminated');
  await untilServed();
  expect(await containers()).toEqual(['berth-network-1 terminated', 'berth-network-2 running']);
});

test('a front takes port 22 over from another Berth that has ended', async () => {
  await untilServed();
  await fronts.stop();
  const other = await fixture.make();
  const before = makeFronts(other);
  await untilServed();
  await other.stop();
  fronts = makeFronts();
  expect((await untilServed()).stdout).toBe('served\n');
  await before.stop();
});

test('is refused with the setting’s name without a network image, and with the reason for one that is missing', async () => {
  const without = await fixture.make({ settings: { networkImage: undefined } });
  const { capabilities } = await without.probe(deadline());
  expect(capabilities).toMatchObject({
    joinNetwork: false,
    whyNoJoinNetwork: expect.stringContaining('networkImage') as string,
  });
  expect((await expectFault(without.joinNetwork(spec.id, deadline()), 'rejected')).message).toContain('networkImage');

  const image = 'berth.local/not-there:1';
  const missing = await fixture.make({ settings: { networkImage: image } });
  const fresh = subject.spec();
  await subject.ensure(fresh);
  const fault = await expectFault(missing.joinNetwork(fresh.id, deadline()), 'rejected');
  expect(fault.message).toContain(`"networkImage" ${image} does not start`);
  expect(fault.retry).toBe(true);

  // Any image with a shell starts, and has no Node.js.
  const odd = await fixture.make({ settings: { networkImage: fixture.imageRef } });
  const unfit = await expectFault(odd.joinNetwork(fresh.id, deadline()), 'rejected');
  expect(unfit.message).toContain('needs a shell and node 22 or newer');
  // The image of the region's settings is put right.
  const network = await fixture.engine.joinNetwork(spec.id, deadline());
  network.close();
});
