/** Registry with one image, enough for a pull, with modes that are slow, fail or refuse. */
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';

/**
 * How it answers: normally; a layer to its half only (`holding`), slowly (`trickling`), or cut off
 * each time (`cutting`); the manifest cut off (`cuttingShort`); nothing (`silent`); 500 or 401 to
 * all but the greeting; a corrupt manifest or layer.
 */
type Mood =
  | 'well'
  | 'holding'
  | 'trickling'
  | 'cutting'
  | 'cuttingShort'
  | 'silent'
  | 'failing'
  | 'denying'
  | 'babbling'
  | 'forging';

const LAYER_BYTES = 6 * 1024 * 1024;

export interface Registry {
  /** `127.0.0.1:<port>`: Docker needs no TLS there. */
  address: string;
  /** Present image, `<address>/tiny:1`. `<address>/secret` is denied; others are unknown. */
  imageRef: string;
  /** Size of its layer as downloaded. */
  layerBytes: number;
  mood: Mood;
  /** Connections on which the layer is being sent. */
  sending(): number;
  /** Number of downloads that the client broke off. */
  hungUp(): number;
  /** Replaces the image by a new one, so nothing of an earlier pull is reused. */
  renew(architecture?: string): Promise<void>;
  stop(): Promise<void>;
}

const digestOf = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

interface Content {
  layer: Buffer;
  config: Buffer;
  manifest: Buffer;
}

const docker = 'application/vnd.docker.';
const manifestType = `${docker}distribution.manifest.v2+json`;

async function makeContent(architecture = 'amd64'): Promise<Content> {
  const tar = await tarOfNoise();
  const layer = gzipSync(tar, { level: 0 });
  const rootfs = { type: 'layers', diff_ids: [digestOf(tar)] };
  const config = Buffer.from(JSON.stringify({ architecture, os: 'linux', config: {}, rootfs }));
  const manifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: { mediaType: `${docker}container.image.v1+json`, size: config.length, digest: digestOf(config) },
    layers: [{ mediaType: `${docker}image.rootfs.diff.tar.gzip`, size: layer.length, digest: digestOf(layer) }],
  };
  return { layer, config, manifest: Buffer.from(JSON.stringify(manifest)) };
}

export async function makeRegistry(): Promise<Registry> {
  let content = await makeContent();
  let mood: Mood = 'well';
  let hungUp = 0;
  const layersOnTheWay = new Set<http.ServerResponse>();

  function sendLayer(request: http.IncomingMessage, response: http.ServerResponse): void {
    const mine = content;
    const { layer } = mine;
    layersOnTheWay.add(response);
    response.on('close', () => {
      if (mine !== content) return;
      layersOnTheWay.delete(response);
      if (!response.writableEnded && mood !== 'cutting') hungUp++;
    });
    const from = Number(/^bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const headers = { 'content-type': 'application/octet-stream', 'content-length': layer.length - from };
    const range = { 'content-range': `bytes ${from}-${layer.length - 1}/${layer.length}` };
    response.writeHead(from > 0 ? 206 : 200, from > 0 ? { ...headers, ...range } : headers);
    const half = Math.floor(layer.length / 2);
    if (mood === 'forging') response.end(Buffer.alloc(layer.length - from));
    else if (mood === 'holding') response.write(layer.subarray(from, half));
    else if (mood === 'trickling') void trickle(layer.subarray(from), response);
    else if (mood === 'cutting') response.write(layer.subarray(from, half), () => response.destroy());
    else response.end(layer.subarray(from));
  }

  const server = http.createServer((request, response) => {
    const url = request.url ?? '';
    const { manifest, config, layer } = content;
    const refuse = (status: number, code: string): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ errors: [{ code, message: code.toLowerCase().replace('_', ' ') }] }));
    };
    const send = (bytes: Buffer, type: string): void => {
      const digest = digestOf(bytes);
      response.writeHead(200, {
        'content-type': type,
        'content-length': bytes.length,
        'docker-content-digest': digest,
      });
      if (mood === 'cuttingShort' && request.method === 'GET')
        response.write(bytes.subarray(0, 20), () => response.destroy());
      else response.end(request.method === 'HEAD' ? undefined : bytes);
    };
    if (mood === 'silent') return;
    if (url === '/v2/') return void response.writeHead(200).end('{}');
    if (mood === 'failing') return void response.writeHead(500).end('out of order');
    if (mood === 'denying' || url.startsWith('/v2/secret/')) return refuse(401, 'UNAUTHORIZED');
    if (/^\/v2\/tiny\/manifests\/(1|sha256:.*)$/.test(url)) {
      return send(mood === 'babbling' ? Buffer.from('{"schemaVersion":') : manifest, manifestType);
    }
    if (url === `/v2/tiny/blobs/${digestOf(config)}`) return send(config, 'application/octet-stream');
    if (url === `/v2/tiny/blobs/${digestOf(layer)}`) return sendLayer(request, response);
    refuse(404, url.startsWith('/v2/tiny/') ? 'MANIFEST_UNKNOWN' : 'NAME_UNKNOWN');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    imageRef: `127.0.0.1:${port}/tiny:1`,
    get layerBytes() {
      return content.layer.length;
    },
    get mood() {
      return mood;
    },
    set mood(next) {
      mood = next;
    },
    sending: () => layersOnTheWay.size,
    hungUp: () => hungUp,
    async renew(architecture) {
      content = await makeContent(architecture);
      layersOnTheWay.clear();
      hungUp = 0;
    },
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Sends a megabyte a second. */
async function trickle(bytes: Buffer, response: http.ServerResponse): Promise<void> {
  const drop = 16 * 1024;
  for (let at = 0; at < bytes.length && !response.destroyed; at += drop) {
    if (at + drop >= bytes.length) response.end(bytes.subarray(at));
    else response.write(bytes.subarray(at, at + drop));
    await delay(16);
  }
}

/** Random bytes, so no layer is known from an earlier run. */
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
