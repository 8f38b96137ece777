/** Descriptors in flight, which the kernel counts by user, on a real daemon. */
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { ensureDefaultImage } from '../../fixtures/default-images.ts';
import { deadline, echoPort, until, type Subject } from '../../conformance/subject.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => ({ fixture, subject } = made));

/** Passes descriptors as nobody, 253 at a time, until 20,000 are in flight, and receives none. */
const HOLD_DESCRIPTORS = `
import array, os, socket, time
os.setgid(65534); os.setuid(65534)
fds = array.array('i', [os.open('/dev/null', os.O_RDONLY)] * 253)
pairs, held = [], 0
while held < 20_000:
    pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    try:
        for _ in range(8):
            pairs[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)], socket.MSG_DONTWAIT)
            held += 253
    except BlockingIOError: pass
print(held, flush=True)
time.sleep(3600)
`;

it('held by one instance as user nobody leave forwards into another instance’s network open', async () => {
  const attacker = subject.spec({
    imageRef: await ensureDefaultImage(fixture.docker, 'notebook'),
    start: 'stubborn',
    memoryMiB: 512,
  });
  const other = subject.spec();
  await Promise.all([subject.ensure(attacker), subject.ensure(other)]);
  (await subject.dial(other.id, echoPort)).destroy();
  const script = `printf '%s' "$1" >/tmp/hold.py; python3 /tmp/hold.py >/tmp/held 2>&1 &`;
  await subject.exec(attacker.id, 'sh', '-c', script, 'sh', HOLD_DESCRIPTORS);
  const held = await until('all descriptors are in flight', async () => {
    const { stdout } = await subject.exec(attacker.id, 'cat', '/tmp/held');
    return stdout.endsWith('\n') && stdout;
  });
  expect(Number(held)).toBeGreaterThanOrEqual(20_000);
  const network = await fixture.engine.joinNetwork(other.id, deadline());
  subject.after(async () => network.close());
  const stream = await network.connect({ host: '127.0.0.1', port: echoPort }, deadline());
  stream.end('hello');
  expect(await text(stream)).toBe('hello');
});
