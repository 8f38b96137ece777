/** Network settings of instances, with their certificates read and checked. */
import { X509Certificate } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { InstanceNetwork } from '../domain/compute/own-variables.ts';
import { errorText } from '../domain/kernel/unknown-error.ts';
import type { Config } from './config.ts';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Throws an Error that names the setting and what is wrong with its file. */
export async function readInstanceNetwork({ instanceNetwork, dataFolder }: Config): Promise<InstanceNetwork> {
  const { caFile, ...network } = instanceNetwork;
  const caFolder = join(dataFolder, 'instance-ca');
  if (caFile === undefined) {
    await rm(caFolder, { recursive: true, force: true });
    return network;
  }
  const ca = await readCertificates(caFile).catch((error: unknown) => {
    const right = 'name a file with CA certificates in PEM, which begin with -----BEGIN CERTIFICATE-----';
    throw new Error(`BERTH_INSTANCE_CA: ${caFile}: ${errorText(error)}; ${right}.`);
  });
  await mkdir(caFolder, { recursive: true, mode: 0o755 });
  await writeFile(join(caFolder, 'ca.pem'), ca, { mode: 0o644 });
  return { ...network, ca, caFolder };
}

/** Leaves out what is no certificate, such as a private key. */
async function readCertificates(file: string): Promise<string> {
  const found = (await readFile(file, 'utf8')).match(CERTIFICATE) ?? [];
  if (found.length === 0) throw new Error('the file has no certificate');
  // The parser throws for what is no certificate.
  const parsed = found.map((certificate) => new X509Certificate(certificate).toString().trim());
  return `${parsed.join('\n')}\n`;
}
