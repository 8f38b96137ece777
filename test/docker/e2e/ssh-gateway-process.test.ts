/**
 * Ssh served by the gateway process: sessions outlive the API, and the host key stays through every
 * restart, with and without sshd.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { IMAGE_DEADLINE_MS, launchFirst, nodePortOf, running } from '../../fixtures/first-launch.ts';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../../fixtures/server-process.ts';
import { makeSshUser, type SshUser } from '../../fixtures/ssh-user.ts';

let server: ServerProcess;
let client: Client;
let user: SshUser;
beforeAll(async () => {
  server = await startServerProcess({ nodePorts: '32250-32269', gatewayApart: true });
  ({ client } = await login(server));
  user = await makeSshUser();
  await client.createSshKey({ name: 'laptop', publicKey: user.publicKey });
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await server?.stop();
  await user?.remove();
});

test('a session survives a killed API; the host key stays through every restart, with either ssh server', async () => {
  const { instanceId } = await launchFirst(client, { name: 'apart' });
  const portOf = async (): Promise<number> => nodePortOf(await running(client, instanceId), 22).nodePort;
  const restart = async (): Promise<number> => {
    await client.restart({ instanceId });
    return portOf();
  };
  let port = await portOf();
  const ssh = (command: string) => user.sh(port, `$SSH '${command}'`);
  const banner = async () =>
    (await user.sh(port, `timeout 60 bash -c 'read -r line </dev/tcp/127.0.0.1/'$PORT'; echo "$line"'`)).stdout;

  expect(await banner()).toMatch(/^SSH-2\.0-OpenSSH/);
  expect((await ssh('mv /usr/sbin/sshd /root/sshd; echo moved')).stdout).toBe('moved\n');
  const host = await user.knownHost(port);
  expect(host).not.toBe('');
  port = await restart();
  expect(await banner()).toMatch(/^SSH-2\.0-Berth/);
  expect((await ssh('echo in')).stdout).toBe('in\n');
  expect(await user.knownHost(port)).toBe(host);

  const counting = user.begin(port, `exec $SSH 'for n in $(seq 60); do echo $n; sleep 0.2; done'`);
  await until(
    async () => counting.said(),
    (said) => said.includes('5\n'),
  );
  await server.kill('SIGKILL');
  expect((await ssh('echo while it is away')).stdout).toBe('while it is away\n');
  const otherUser = await makeSshUser();
  expect((await otherUser.sh(port, '$SSH true')).stderr).toMatch(/Permission denied/);
  await server.start();
  ({ client } = await login(server));
  expect(await counting.ended).toMatchObject({
    code: 0,
    stdout: Array.from({ length: 60 }, (_, n) => `${n + 1}\n`).join(''),
  });

  const terminal = user.begin(port, 'exec $SSH -tt', { columns: 80, rows: 24 });
  terminal.type('sleep 4321\n');
  const sleeps = async () =>
    (await ssh('for p in /proc/[0-9]*; do grep -qsxz 4321 $p/cmdline && echo $p; done')).stdout;
  await until(sleeps, (found) => found !== '');
  await server.gateway?.kill('SIGKILL');
  await server.kill('SIGKILL');
  await server.start();
  await server.gateway?.start();
  ({ client } = await login(server));
  await until(
    () => ssh('echo back'),
    ({ stdout }) => stdout === 'back\n',
    30_000,
  );
  expect(await user.knownHost(port)).toBe(host);
  // A terminal of a dead session is not resumed.
  await until(sleeps, (found) => found === '', 10_000);
  // The instance was never reported unhealthy.
  expect((await client.getInstance({ instanceId })).instance.instanceRuntimeInfo).toMatchObject({
    status: 'Running',
    healthy: true,
  });

  const { sshKey } = await client.createSshKey({ name: 'other', publicKey: otherUser.publicKey });
  await until(
    () => otherUser.sh(port, '$SSH true'),
    ({ code }) => code === 0,
    10_000,
  );
  await client.deleteSshKey({ id: sshKey.id });
  await until(
    () => otherUser.sh(port, '$SSH true'),
    ({ code }) => code === 255,
    10_000,
  );
  await otherUser.remove();

  expect((await ssh('mv /root/sshd /usr/sbin/sshd; echo moved')).stdout).toBe('moved\n');
  port = await restart();
  expect(await banner()).toMatch(/^SSH-2\.0-OpenSSH/);
  expect((await ssh('echo in')).stdout).toBe('in\n');
  expect(await user.knownHost(port)).toBe(host);
  await client.terminate({ instanceId });
});
