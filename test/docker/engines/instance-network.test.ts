/**
 * Instances in a company's network: a proxy that intercepts TLS, a package index and a mirror
 * behind it, name servers of its own. Builds the default image when it is absent.
 */
import { execFile } from 'node:child_process';
import dgram from 'node:dgram';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type Docker from 'dockerode';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { shellExports } from '../../../src/domain/compute/environment.ts';
import { ownVariables, proxyVariables, type InstanceNetwork } from '../../../src/domain/compute/own-variables.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { BUILD_DEADLINE_MS, ensureDefaultImage } from '../../fixtures/default-images.ts';
import { startInterceptingProxy, type InterceptingProxy } from '../../fixtures/intercepting-proxy.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { control, deadline, until, type Subject } from '../../conformance/subject.ts';
import { importBusybox, onDocker, type DockerFixture } from './docker-fixture.ts';

const run = promisify(execFile);
const START = path.join(import.meta.dirname, '../../../images/start.sh');

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => ({ fixture, subject } = made));

let lab: string;
let notebook: string;
let proxy: InterceptingProxy;
/** Address of the host that instances reach. */
const gateway = '10.213.7.1';
let network: Docker.Network;
let wheel: Buffer;
let deb: Buffer;
let packages: string;

beforeAll(async () => {
  notebook = await ensureDefaultImage(fixture.docker, 'notebook');
  lab = await mkdtemp(path.join(tmpdir(), 'berth-company-'));
  [wheel, deb] = [await makeWheel(), await makeDeb()];
  const control = (await run('dpkg-deb', ['--field', path.join(lab, 'harbour.deb')])).stdout.trim();
  packages = `${control}\nFilename: pool/harbour.deb\nSize: ${deb.length}\nSHA256: ${await sha256('harbour.deb')}\n`;
  // Not the default network: a Docker inside has the same addresses.
  const Config = [{ Subnet: '10.213.7.0/28', Gateway: gateway }];
  network = await fixture.docker.createNetwork({ Name: `berth-test-${lab.slice(-6)}`, IPAM: { Config } });
  proxy = await startInterceptingProxy(gateway, (url) => answers()[url]);
}, BUILD_DEADLINE_MS);
afterAll(async () => {
  await proxy?.stop();
  await network?.remove();
  await rm(lab, { recursive: true, force: true });
});

const answers = (): Record<string, Buffer | string> => ({
  'https://files.test/greeting': 'through the proxy\n',
  'https://pypi.test/simple/harbour/': '<a href="/files/harbour-1.0-py3-none-any.whl">harbour-1.0-py3-none-any.whl</a>',
  'https://pypi.test/files/harbour-1.0-py3-none-any.whl': wheel,
  'https://mirror.test/debian/dists/trixie/main/binary-amd64/Packages': packages,
  'https://mirror.test/debian/pool/harbour.deb': deb,
});

async function sha256(name: string): Promise<string> {
  return (await run('sha256sum', [path.join(lab, name)])).stdout.split(' ')[0] ?? '';
}

async function makeWheel(): Promise<Buffer> {
  const script = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
  wheel.writestr('harbour.py', 'DEPTH = 12\\n')
  wheel.writestr('harbour-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: harbour\\nVersion: 1.0\\n')
  wheel.writestr('harbour-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
  wheel.writestr('harbour-1.0.dist-info/RECORD', '')
`;
  await run('python3', ['-c', script, path.join(lab, 'harbour.whl')]);
  return readFile(path.join(lab, 'harbour.whl'));
}

async function makeDeb(): Promise<Buffer> {
  const root = path.join(lab, 'harbour');
  await mkdir(path.join(root, 'DEBIAN'), { recursive: true });
  await mkdir(path.join(root, 'usr/bin'), { recursive: true });
  await writeFile(path.join(root, 'usr/bin/harbour'), '#!/bin/sh\necho moored\n', { mode: 0o755 });
  const fields = 'Package: harbour\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@test>\nDescription: a test\n';
  await writeFile(path.join(root, 'DEBIAN/control'), fields);
  await run('dpkg-deb', ['--root-owner-group', '--build', root, path.join(lab, 'harbour.deb')]);
  return readFile(path.join(lab, 'harbour.deb'));
}

const company = (): InstanceNetwork => ({
  ca: proxy.ca,
  proxy: proxy.url,
  pipIndex: 'https://pypi.test/simple',
  aptMirror: 'https://mirror.test',
});

async function specIn(network: InstanceNetwork, options: Partial<EngineSpec> = {}): Promise<EngineSpec> {
  const spec = subject.spec({ imageRef: notebook, memoryMiB: 512, pidsLimit: 512, ...options });
  const variables = ownVariables({ id: spec.id, spec: { type: { cpuCores: 1 } } }, { path: '', host: null }, network);
  const files = [
    control('start', await readFile(START, 'utf8'), 0o555),
    control('networks', await readFile(path.join(path.dirname(START), 'networks.sh'), 'utf8')),
    control('init-script', ''),
    control('authorized_keys', ''),
    control('notebook-token', 'token\n'),
    control('env', shellExports(variables)),
    ...(network.ca === undefined ? [] : [control('ca.pem', network.ca)]),
    ...(network.aptMirror === undefined ? [] : [control('apt-mirror', network.aptMirror)]),
  ];
  return { ...spec, dns: network.dns, files };
}

async function launch(network: InstanceNetwork, options: Partial<EngineSpec> = {}): Promise<EngineSpec> {
  const spec = await specIn(network, options);
  await subject.ensure(spec);
  await until(
    'start.sh is past the networks',
    async () => (await output(spec, 'test -d /run/sshd || test -s /etc/profile.d/berth.sh; echo $?')) === '0',
  );
  return spec;
}

const output = async ({ id }: EngineSpec, command: string): Promise<string> => {
  const script = `[ ! -r /etc/berth/env ] || . /etc/berth/env; { ${command}; } 2>&1`;
  return (await fixture.engine.exec(id, ['sh', '-c', script], deadline())).stdout.trim();
};

describe("behind a company's proxy", () => {
  it('curl, Python and pip reach what only the proxy reaches, with its certificate', async () => {
    const spec = await launch(company());
    expect(await output(spec, 'curl -sS https://files.test/greeting')).toBe('through the proxy');
    const without = 'unset SSL_CERT_FILE CURL_CA_BUNDLE; curl -sS https://files.test/greeting';
    expect(await output(spec, without), "the image's own bundle has the certificate").toBe('through the proxy');
    const script =
      "import urllib.request; print(urllib.request.urlopen('https://files.test/greeting').read().decode())";
    expect(await output(spec, `python3 -c "${script}"`)).toBe('through the proxy');
    const pip = await output(spec, 'pip install --quiet harbour; python3 -c "import harbour; print(harbour.DEPTH)"');
    expect(pip.split('\n').at(-1), pip).toBe('12');
    expect(proxy.asked).toContain('https://pypi.test/simple/harbour/');
  });

  longTest('apt-get installs from the mirror', async () => {
    const spec = await launch(company());
    const apt = await output(
      spec,
      'apt-get -o Acquire::AllowInsecureRepositories=1 update; apt-get install -y --allow-unauthenticated harbour && harbour',
    );
    expect(apt.split('\n').at(-1), apt).toBe('moored');
    expect(proxy.asked).toContain('https://mirror.test/debian/pool/harbour.deb');
    expect(proxy.asked.filter((url) => url.includes('debian.org'))).toEqual([]);
  });

  longTest('an image keeps working elsewhere, and trusts the certificate only while it is set', async () => {
    const spec = await launch(company());
    await output(spec, 'echo mine >>/etc/ssl/certs/ca-certificates.crt; update-ca-certificates >/dev/null 2>&1; true');
    expect(await output(spec, 'curl -sS https://files.test/greeting'), 'after its own update').toBe(
      'through the proxy',
    );
    const count = 'grep -c "^-----BEGIN" /etc/ssl/certs/ca-certificates.crt';
    const trusted = Number(await output(spec, count));
    const sources = await output(spec, 'cat /etc/apt/sources.list');
    expect(sources).toContain('http://deb.debian.org/debian');
    await fixture.engine.halt(spec.id, 3_000, deadline());
    const { files } = await specIn({}, { id: spec.id });
    await fixture.engine.ensure({ ...spec, files }, deadline());
    await until('the certificate is gone', async () => Number(await output(spec, count)) < trusted);
    expect(await output(spec, 'ls /usr/local/share/ca-certificates /dev/shm/berth-network')).not.toMatch(
      /berth\.crt|ca\.pem|apt/,
    );
    expect(await output(spec, 'apt-config dump | grep berth-network')).toBe('');
  });

  longTest.each([
    ['Red Hat', 'etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem', 'etc/pki/ca-trust/source/anchors/other.crt'],
    ['Alpine', 'etc/ssl/certs/ca-certificates.crt', 'usr/local/share/ca-certificates/other.crt'],
    ['none', 'etc/none', 'etc/none-either'],
  ])('the bundle of %s gets the certificate at each start, once', async (kind, bundle, anchor) => {
    const imageRef = `berth.local/test-bundle-${kind.toLowerCase().replace(' ', '-')}:${fixture.installation}`;
    const there = { content: '# certificates of the image\n', mode: 0o644 };
    await importBusybox(fixture.docker, imageRef, await fixture.hostFolder(), { [bundle]: there, [anchor]: there });
    subject.after(() => fixture.docker.getImage(imageRef).remove({ force: true }));
    const spec = await launch(company(), { imageRef });
    await fixture.engine.halt(spec.id, 3_000, deadline());
    await fixture.engine.ensure(spec, deadline());
    await until('the link is there', async () => (await output(spec, 'test -e $SSL_CERT_FILE; echo $?')) === '0');
    const content = await output(spec, 'cat $SSL_CERT_FILE');
    expect(content.split(proxy.ca.trim())).toHaveLength(2);
    if (kind !== 'none') {
      expect(content).toContain('# certificates of the image');
      expect(await output(spec, `cat /${path.dirname(anchor)}/berth.crt`)).toBe(proxy.ca.trim());
    }
  });

  longTest('its Docker pulls through the proxy, with its certificate', async () => {
    const caFolder = await fixture.hostFolder();
    await chmod(caFolder, 0o755); // the daemon is no root
    await writeFile(path.join(caFolder, 'ca.pem'), proxy.ca);
    await fixture.engine.ensureImage(fixture.engine.dockerImageRef ?? '', () => {}, deadline());
    const environment = Object.fromEntries(proxyVariables(company()));
    const docker = { storage: await fixture.hostFolder(), caFolder, environment };
    const spec = await launch(company(), { docker, memoryMiB: 700 });
    const pull = async (): Promise<string> => {
      const request = 'POST /images/create?fromImage=registry.test/tool&tag=1';
      return output(
        spec,
        `curl -sS --noproxy '*' --unix-socket /var/run/docker.sock -X ${request.replace(' /', ' "http://d/')}"`,
      );
    };
    await until(
      () => `the pull arrives: ${proxy.asked.filter((url) => url.includes('registry')).join()}`,
      async () => !/unix-socket|Could not connect|Failed to connect|curl:/.test(await pull()),
    );
    expect(await pull()).not.toMatch(/x509|lookup|dial/);
    expect(proxy.asked).toContain('https://registry.test/v2/');
  });
});

it('names are resolved by the name servers of the setting', async () => {
  const asked: string[] = [];
  const server = dgram.createSocket('udp4', (question, from) => {
    asked.push(question.subarray(12).toString('latin1'));
    server.send(answerTo(question), from.port, from.address);
  });
  server.bind(53, gateway);
  await once(server, 'listening');
  subject.after(async () => void server.close());
  const spec = await launch({ dns: [gateway] });
  const script = "import socket; print(socket.gethostbyname('ship.intern.test'))";
  expect(await output(spec, `python3 -c "${script}"`)).toBe('192.0.2.7');
  expect(asked.join()).toContain('ship');
});

/** An A record of 192.0.2.7 for any question of type A; else none. */
function answerTo(question: Buffer): Buffer {
  let end = 12;
  while ((question[end] ?? 0) !== 0) end += (question[end] ?? 0) + 1;
  const isA = question.readUInt16BE(end + 1) === 1;
  const head = Buffer.from(question.subarray(0, end + 5));
  head.writeUInt16BE(0x8180, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(isA ? 1 : 0, 6);
  head.writeUInt32BE(0, 8);
  const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
  return isA ? Buffer.concat([head, record]) : head;
}
