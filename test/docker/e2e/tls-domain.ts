/** A wildcard domain with a certificate, of which no DNS knows: all names below it lead to this machine. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { LookupFunction } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generate } from 'selfsigned';
import { freePort } from './server-process.ts';

export interface TlsDomain {
  /** `gpu.test:8443`: the domain with the gateway's port. */
  at: string;
  /** Of the operator, as the environment has them. */
  settings: Record<string, string>;
  /** For a client of Node's. */
  connect: { ca: string; lookup: LookupFunction };
  remove(): Promise<void>;
}

export async function makeTlsDomain(name: string): Promise<TlsDomain> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-tls-'));
  const altNames = [name, `*.${name}`].map((value) => ({ type: 2 as const, value }));
  const extensions = [{ name: 'subjectAltName' as const, altNames }];
  const { cert, private: key } = await generate([{ name: 'commonName', value: name }], { keyType: 'ec', extensions });
  const [certFile, keyFile] = [join(folder, 'cert'), join(folder, 'key')];
  await writeFile(certFile, cert);
  await writeFile(keyFile, key);
  const port = await freePort();
  return {
    at: `${name}:${port}`,
    settings: {
      BERTH_GATEWAY_LISTEN: `127.0.0.1:${port}`,
      BERTH_DOMAIN: `*.${name}:${port}`,
      BERTH_GATEWAY_TLS_CERT: certFile,
      BERTH_GATEWAY_TLS_KEY: keyFile,
    },
    connect: { ca: cert, lookup: toHere },
    remove: () => rm(folder, { recursive: true }),
  };
}

const toHere: LookupFunction = (_name, { all }, done) =>
  all === true ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4);
