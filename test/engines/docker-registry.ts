/** A registry of one image on a port of its own, as far as a pull needs one, with ways to be slow and to refuse. */
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';

const LAYER_BYTES = 6 * 1024 * 1024;

export interface Registry {
  /** `127.0.0.1:<port>`, which Docker takes without TLS. */
  address: string;
  /** The image that is there is `<address>/tiny:1`; `<address>/secret` is denied, everything else is unknown. */
  imageRef: string;
  /** Size of its one layer as downloaded. */
  layerBytes: number;
  /** While set, a layer is sent to its half and no further. */
  hold: boolean;
  stop(): Promise<void>;
}

const digestOf = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

export async function makeRegistry(): Promise<Registry> {
  const tar = await tarOfNoise();
  const layer = gzipSync(tar, { level: 0 });
  const config = Buffer.from(
    JSON.stringify({
      architecture: 'amd64',
      os: 'linux',
      config: {},
      rootfs: { type: 'layers', diff_ids: [digestOf(tar)] },
    }),
  );
  const docker = 'application/vnd.docker.';
  const manifestType = `${docker}distribution.manifest.v2+json`;
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: manifestType,
      config: { mediaType: `${docker}container.image.v1+json`, size: config.length, digest: digestOf(config) },
      layers: [{ mediaType: `${docker}image.rootfs.diff.tar.gzip`, size: layer.length, digest: digestOf(layer) }],
    }),
  );
  const registry = { hold: false };

  const server = http.createServer((request, response) => {
    const url = request.url ?? '';
    const refuse = (status: number, code: string): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ errors: [{ code, message: code.toLowerCase().replace('_', ' ') }] }));
    };
    const send = (bytes: Buffer, type: string): void => {
      const headers = {
        'content-type': type,
        'content-length': bytes.length,
        'docker-content-digest': digestOf(bytes),
      };
      response.writeHead(200, headers);
      if (request.method === 'HEAD') response.end();
      else if (bytes !== layer || !registry.hold) response.end(bytes);
      else response.write(bytes.subarray(0, bytes.length / 2));
    };
    if (url === '/v2/') return void response.writeHead(200).end('{}');
    if (url.startsWith('/v2/secret/')) return refuse(401, 'UNAUTHORIZED');
    if (/^\/v2\/tiny\/manifests\/(1|sha256:.*)$/.test(url)) return send(manifest, manifestType);
    if (url === `/v2/tiny/blobs/${digestOf(config)}`) return send(config, 'application/octet-stream');
    if (url === `/v2/tiny/blobs/${digestOf(layer)}`) return send(layer, 'application/octet-stream');
    refuse(404, url.startsWith('/v2/tiny/') ? 'MANIFEST_UNKNOWN' : 'NAME_UNKNOWN');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(registry, {
    address: `127.0.0.1:${port}`,
    imageRef: `127.0.0.1:${port}/tiny:1`,
    layerBytes: layer.length,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  });
}

/** Of noise, so that nothing of it is known from an earlier run. */
async function tarOfNoise(): Promise<Buffer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-registry-'));
  try {
    await writeFile(path.join(folder, 'noise'), randomBytes(LAYER_BYTES));
    const options = { encoding: 'buffer' as const, maxBuffer: 2 * LAYER_BYTES };
    return (await promisify(execFile)('tar', ['-C', folder, '-c', 'noise'], options)).stdout;
  } finally {
    await rm(folder, { recursive: true });
  }
}
