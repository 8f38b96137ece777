/** A second engine on this machine, which a test reaches as one on another host. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { remoteEndpoint, type RemoteEngineAddress } from '../../../src/docker/remote-endpoint.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { until } from '../../fixtures/server-process.ts';
import { makeTlsAuthority, type TlsAuthority } from '../../fixtures/tls-authority.ts';
import { makeDockerFixture, type DockerFixture } from './docker-fixture.ts';
import { startOwnEngine, type OwnEngine } from '../e2e/test-engine.ts';

export interface RemoteEngine {
  engine: OwnEngine;
  address: RemoteEngineAddress;
  /** For `address`. */
  credentials: string;
  authority: TlsAuthority;
  stop(): Promise<void>;
}

/** Over TLS. */
export async function startRemoteEngine(): Promise<RemoteEngine> {
  const authority = await makeTlsAuthority();
  try {
    const port = await freePort();
    const engine = await startOwnEngine({ tls: { port, authority } });
    return {
      engine,
      address: { endpoint: `tcp://127.0.0.1:${port}`, ca: authority.ca },
      credentials: authority.client.pem,
      authority,
      async stop() {
        await engine.stop();
        await authority.stop();
      },
    };
  } catch (error) {
    await authority.stop();
    throw error;
  }
}

/** Fixture of the conformance suite; ends the engine, too. */
export async function makeRemoteFixture(start: () => Promise<RemoteEngine>): Promise<DockerFixture> {
  const remote = await start();
  try {
    const { address, credentials } = remote;
    const endpoint = address.endpoint.replace(/:\d+/, ':9');
    const unreachable = { endpoint: remoteEndpoint({ ...address, endpoint }, credentials) };
    const fixture = await makeDockerFixture(remoteEndpoint(address, credentials), unreachable);
    return {
      ...fixture,
      lacks: { ...fixture.lacks, forwarding: "the firewall is of the machine's daemon" },
      async stop() {
        try {
          await fixture.stop();
        } finally {
          await remote.stop();
        }
      },
    };
  } catch (error) {
    await remote.stop();
    throw error;
  }
}

/** Over ssh, by an sshd of this test on the loopback address. */
export async function startSshEngine(): Promise<RemoteEngine> {
  const authority = await makeTlsAuthority();
  const engine = await startOwnEngine();
  try {
    const sshd = await startSshd();
    return {
      engine,
      address: { endpoint: `ssh://root@127.0.0.1:${sshd.port}${engine.socketPath}`, hostKey: sshd.hostKey },
      credentials: sshd.userKey,
      authority,
      async stop() {
        await sshd.stop();
        await engine.stop();
        await authority.stop();
      },
    };
  } catch (error) {
    await engine.stop();
    throw error;
  }
}

const run = promisify(execFile);
const SSHD = '/usr/sbin/sshd';

interface Sshd {
  port: number;
  hostKey: string;
  /** Private key of a user that it accepts. */
  userKey: string;
  stop(): Promise<void>;
}

async function startSshd(): Promise<Sshd> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-sshd-'));
  const at = (name: string): string => path.join(folder, name);
  for (const name of ['host', 'user']) await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at(name)]);
  const port = await freePort();
  await mkdir('/run/sshd', { recursive: true });
  await writeFile(
    at('config'),
    [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${at('host')}`,
      `AuthorizedKeysFile ${at('user.pub')}`,
      `PidFile ${at('pid')}`,
      'PermitRootLogin prohibit-password',
      'StrictModes no',
      'UsePAM no',
    ].join('\n'),
  );
  const sshd = spawn(SSHD, ['-D', '-e', '-f', at('config')], { stdio: 'ignore' });
  const ended = once(sshd, 'exit');
  await until(
    () => accepts(port),
    (yes) => yes,
  );
  return {
    port,
    hostKey: (await readFile(at('host.pub'), 'utf8')).trim(),
    userKey: await readFile(at('user'), 'utf8'),
    async stop() {
      sshd.kill('SIGTERM');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function accepts(port: number): Promise<boolean> {
  const socket = net.connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
