import { X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { masked, readConfig } from '../../../src/main/config.ts';
import { readInstanceNetwork } from '../../../src/main/instance-network.ts';

let lab: string;
beforeAll(async () => void (lab = await mkdtemp(join(tmpdir(), 'berth-ca-'))));
afterAll(() => rm(lab, { recursive: true }));

const read = (settings: Record<string, string>) => readInstanceNetwork(readConfig({ BERTH_DATA: lab, ...settings }));

it('certificates are read without what else is in their file, and lie in a folder for Docker inside', async () => {
  const [first = '', second = ''] = rootCertificates;
  await writeFile(
    join(lab, 'ca.pem'),
    `# ours\n${first}\n-----BEGIN PRIVATE KEY-----\nAA\n-----END PRIVATE KEY-----\n${second}`,
  );
  const { ca, caFolder = '' } = await read({ BERTH_INSTANCE_CA: join(lab, 'ca.pem') });
  expect(ca).toBe([first, second].map((one) => new X509Certificate(one).toString()).join(''));
  expect(await readFile(join(caFolder, 'ca.pem'), 'utf8')).toBe(ca);
  expect(await read({})).toEqual({});
  await expect(stat(caFolder), 'gone with the setting').rejects.toThrow(/ENOENT/);
});

it.each([
  ['nothing', /has no certificate; name a file with CA certificates in PEM, which begin with/],
  ['-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----', /BERTH_INSTANCE_CA: .*name a file/],
])('the start is refused with %j for certificates', async (content, why) => {
  await writeFile(join(lab, 'wrong.pem'), content);
  await expect(read({ BERTH_INSTANCE_CA: join(lab, 'wrong.pem') })).rejects.toThrow(why);
  await expect(read({ BERTH_INSTANCE_CA: join(lab, 'absent.pem') })).rejects.toThrow(/absent\.pem.*name a file/);
});

it('the log shows no password of a proxy', () => {
  const config = readConfig({ BERTH_INSTANCE_PROXY: 'http://ann:harbour@proxy.test:3128' });
  expect(JSON.stringify(masked(config))).not.toContain('harbour');
});
