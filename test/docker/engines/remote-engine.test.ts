/** A Docker engine on another host: by TLS and by ssh, with what it lacks and why. */
import { randomUUID } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { remoteEndpoint, type RemoteEngineAddress } from '../../../src/docker/remote-endpoint.ts';
import type { Capabilities, Engine } from '../../../src/engines/contract.ts';
import { makeDockerEngine } from '../../../src/engines/docker/docker.ts';
import { makeTlsAuthority } from '../../fixtures/tls-authority.ts';
import { control, deadline, echoPort, makeSubject, type Subject } from '../../conformance/subject.ts';
import type { DockerFixture } from './docker-fixture.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { makeRemoteFixture, startRemoteEngine, startSshEngine, type RemoteEngine } from './remote-engine.ts';

const log = { debug: () => {}, info: () => {}, warn: () => {} };

function engineAt(address: RemoteEngineAddress, credentials: string): Engine {
  const engine = makeDockerEngine({
    endpoint: remoteEndpoint(address, credentials),
    installation: randomUUID(),
    stateFolder: null,
    helperImage: 'berth.local/none:1',
    isolation: { kernelLimits: 'check', hostMemoryMiB: 0, diskRates: [] },
    linkLocal: 'closed',
    log,
  });
  onTestFinished(() => engine.stop());
  return engine;
}

const whyOf = (at: { address: RemoteEngineAddress; credentials: string }): Promise<string> =>
  engineAt(at.address, at.credentials)
    .probe(deadline())
    .then(
      () => 'it answers',
      (error: Error) => error.message,
    );

describe.each([
  ['TLS', startRemoteEngine],
  ['ssh', startSshEngine],
] as const)('an engine on another host by %s', (kind, start) => {
  let fixture: DockerFixture;
  let subject: Subject;
  let remote: RemoteEngine;
  beforeAll(async () => {
    fixture = await makeRemoteFixture(async () => (remote = await start()));
    subject = makeSubject(fixture);
  });
  afterAll(async () => {
    await subject.clear();
    await fixture.stop();
  });

  test('runs an instance with its files, commands and ports, and leaves nothing', async () => {
    const spec = subject.spec({ files: [control('note', 'old')] });
    await subject.ensure(spec);
    expect((await subject.exec(spec.id, 'cat', '/etc/berth/note')).stdout).toBe('old');
    await subject.ensure({ ...spec, files: [...spec.files.slice(0, 1), control('note', 'new')] });
    expect((await subject.exec(spec.id, 'cat', '/etc/berth/note')).stdout).toBe('new');
    const stream = await subject.dial(spec.id, echoPort);
    stream.end('there and back');
    expect(await text(stream)).toBe('there and back');
    await fixture.engine.destroy(spec.id, deadline());
    const { Volumes } = await fixture.docker.listVolumes();
    expect(Volumes.map(({ Name }) => Name)).toEqual([]);
    expect(await fixture.engine.listOwned(deadline())).toEqual([]);
  });

  test('says what needs the machine of the engine, with reasons', async () => {
    const { capabilities } = await engineAt(remote.address, remote.credentials).probe(deadline());
    expect(capabilities).toMatchObject({
      dial: true,
      keepsRootDisk: true,
      saveImage: true,
      processLimit: true,
      dockerInside: false,
      joinNetwork: false,
      whyNoJoinNetwork: expect.stringMatching(/on the machine of Berth/),
      listenUnix: false,
      whyNoListenUnix: expect.stringMatching(/another machine/),
      isolation: {
        kernelLimits: false,
        whyNoKernelLimits: expect.stringMatching(/another machine/),
        hostReserve: false,
        whyNoHostReserve: expect.stringMatching(/another machine/),
        connectionLimit: false,
        whyNoConnectionLimit: expect.stringMatching(/another machine/),
        linkLocalClosed: false,
        whyLinkLocalOpen: expect.stringMatching(/another machine/),
        egressPolicy: false,
        whyNoEgressPolicy: expect.stringMatching(/another machine/),
      },
      sizes: {
        processors: false,
        whyNoProcessors: expect.stringMatching(/another machine/),
        memory: false,
        whyNoMemory: expect.stringMatching(/on the machine of Berth/),
      },
    } satisfies { [Name in keyof Capabilities]?: unknown });
  });

  test('an engine that is away or another one has a reason that says so', async () => {
    const { address, credentials } = remote;
    const away = {
      address: { ...address, endpoint: address.endpoint.replace(/:\d+/, `:${await freePort()}`) },
      credentials,
    };
    const others = await makeTlsAuthority();
    onTestFinished(() => others.stop());
    if (kind === 'TLS') {
      expect(await whyOf(away)).toMatch(/does not answer/);
      expect(await whyOf({ address: { ...address, ca: others.ca }, credentials })).toMatch(/is not trusted/);
      expect(await whyOf({ address, credentials: others.client.pem })).toMatch(/denies the client certificate/);
      return;
    }
    expect(await whyOf(away)).toMatch(/ssh connection to 127.0.0.1 does not open/);
    const another = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZlXyq2dUXtjpYQbP0L0VnJ8oZkqUoG3n6cL2o5V7aB';
    expect(await whyOf({ address: { ...address, hostKey: another }, credentials })).toMatch(
      /has the host key SHA256:.+, and "hostKey" is SHA256:/,
    );
    expect(await whyOf({ address, credentials: others.client.pem })).toMatch(/denies the private key|cannot be read/);
  });
});
