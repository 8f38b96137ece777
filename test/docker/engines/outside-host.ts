/** A host outside: a network namespace at the other end of a cable to this host, with services. */
import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { promisify } from 'node:util';
import type { Subject } from '../../conformance/subject.ts';
import { until } from '../../conformance/subject.ts';

const run = promisify(execFile);

/** A network of the process's own: test files run side by side. */
const NETWORK = `198.18.${process.pid % 256}`;
export const OUTSIDE = `${NETWORK}.2`;
export const [TCP_ALLOWED, TCP_OTHER, UDP_ECHO] = [8001, 8002, 9001];

/** TCP and UDP servers; port 53 answers any question for a name with `OUTSIDE`. */
const SERVICES = `
const net = require('node:net'), dgram = require('node:dgram');
for (const port of [${TCP_ALLOWED}, ${TCP_OTHER}])
  net.createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\\r\\ncontent-length: 7\\r\\n\\r\\noutside'));
  }).listen(port);
const echo = dgram.createSocket('udp4');
echo.on('message', (data, { port, address }) => echo.send(data, port, address)).bind(${UDP_ECHO});
const names = dgram.createSocket('udp4');
names.on('message', (question, { port, address }) => {
  const answer = Buffer.concat([question.subarray(0, question.indexOf(0, 12) + 5),
    Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, ${OUTSIDE.split('.').join(', ')}])]);
  answer.writeUInt16BE(0x8180, 2); answer.writeUInt16BE(1, 6); answer.writeUInt16BE(0, 10);
  names.send(answer, port, address);
}).bind(53, () => console.log('ready'));
`;

export async function startOutsideHost(subject: Pick<Subject, 'after'>): Promise<void> {
  const holder = spawn('unshare', ['--net', 'sleep', '600'], { stdio: 'ignore' });
  subject.after(async () => void holder.kill('SIGKILL'));
  const name = `out${randomUUID().slice(0, 8)}`;
  const inside = `nsenter -t ${holder.pid} -n ip`;
  await until('the network exists', async () => {
    const [own, other] = await Promise.all(
      ['self', holder.pid].map((pid) => run('readlink', [`/proc/${pid}/ns/net`]).then(({ stdout }) => stdout)),
    );
    return own !== other;
  });
  const commands = [
    `ip link add ${name} type veth peer name eth0 netns ${holder.pid}`,
    `ip addr add ${NETWORK}.1/24 dev ${name}`,
    `ip link set ${name} up`,
    `${inside} addr add ${OUTSIDE}/24 dev eth0`,
    `${inside} link set eth0 up`,
    `${inside} route add default via ${NETWORK}.1`,
  ];
  subject.after(() => run('ip', ['link', 'del', name]));
  await run('sh', ['-ec', commands.join('\n')]);
  const services = spawn('nsenter', ['-t', String(holder.pid), '-n', process.execPath, '-e', SERVICES], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  subject.after(async () => void services.kill('SIGKILL'));
  await once(services.stdout, 'data');
}
