/** The edge over real files in a temporary folder, with two accounts and a volume each. */
import { connect } from 'node:net';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { makeDiskHolders, type DiskHolders } from '../../../src/control/storage/disk-holders.ts';
import { makeFiles } from '../../../src/control/storage/files.ts';
import { regionId, userId, volumeId } from '../../../src/domain/kernel/ids.ts';
import { beginOperation } from '../../../src/domain/compute/operation.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import type { Volume } from '../../../src/domain/storage/volume.ts';
import type { ApiOptions } from '../../../src/edge/http/api.ts';
import { folderFiles, uploadFolder } from '../../../src/storage/files.ts';
import { fakeCaller, fakeControl } from './fake-control.ts';
import { startEdge, type BareApi, type Reply, type Send } from './harness.ts';

export const ALICE = 'alice';
export const BOB = 'bob';
export const ALICES = 'volume-of-alice';
export const BOBS = 'volume-of-bob';

export interface FilesFixture extends BareApi {
  /** Path of the volume's files on the host. */
  folderOf(volume: string): string;
  volumes: Map<string, Volume>;
  uses: DiskHolders;
  /** Number of times that files of a volume were opened. */
  opened(): number;
  uploadsLeft(volume: string): Promise<string[]>;
  /** Sends the pieces on a raw connection, and returns all bytes until it closes. */
  exchange(...pieces: (string | Buffer)[]): Promise<string>;
}

export const fileUrl = (path: string, volume = ALICES): string => `/api/storage/volume/${volume}/files/${path}`;

/** The head of one of Alice's requests, for a raw connection. */
export const head = (method: string, path: string, ...headers: string[]): string =>
  [`${method} ${fileUrl(path)} HTTP/1.1`, 'Host: x', `Authorization: Bearer ${ALICE}`, ...headers, '', ''].join('\r\n');

export function expectRefused(reply: Reply, status: number, code: string): void {
  expect([reply.status, reply.headers['x-error-code']], reply.text).toEqual([status, code]);
  expect(reply.json).toEqual(expect.objectContaining({ message: expect.any(String), status }));
}

/** No volume is in use and no partial upload is left after a test. */
export async function expectNothingLeft({ uses, uploadsLeft }: FilesFixture): Promise<void> {
  await expect.poll(() => uses.inUse({ kind: 'volume', id: ALICES })).toBe(false);
  expect(await uploadsLeft(ALICES)).toEqual([]);
}

/** A single fixture for all tests of a file, checked for leftovers after each. */
export function filesFixture() {
  let fixture: FilesFixture | undefined;
  const api = (): FilesFixture => {
    if (fixture === undefined) throw new Error('the fixture is used before it is ready');
    return fixture;
  };
  beforeAll(async () => {
    fixture = await startFilesFixture();
  });
  afterAll(() => api().stop());
  afterEach(() => expectNothingLeft(api()));
  return {
    api,
    /** Path of Alice's volume. */
    folder: (): string => api().folderOf(ALICES),
    ask: (method: string, path: string, more: Send = {}): Promise<Reply> =>
      api().send(fileUrl(path), { token: ALICE, ...more, method }),
  };
}

export async function startFilesFixture(more: Partial<ApiOptions> = {}): Promise<FilesFixture> {
  const base = await mkdtemp(join(tmpdir(), 'berth-files-'));
  const folderOf = (id: string): string => join(base, id, 'files');
  const volumes = new Map<string, Volume>();
  for (const [id, ownerName] of [
    [ALICES, ALICE],
    [BOBS, BOB],
  ] as const) {
    await mkdir(folderOf(id), { recursive: true });
    volumes.set(id, volumeOf(id, ownerName));
  }
  const uses = makeDiskHolders();
  let opened = 0;
  const files = makeFiles({
    async findVolume(accountId, id) {
      if (/\p{Cc}/u.test(id)) throw new Error('PostgreSQL takes no such text');
      const volume = volumes.get(id);
      return volume?.ownerId === accountId ? volume : null;
    },
    async openFiles({ id }) {
      opened += 1;
      return folderFiles(folderOf(id));
    },
    uses,
  });
  const control = fakeControl({
    files,
    access: {
      async authenticate(credential) {
        const name = credential.kind === 'token' ? credential.token : credential.key;
        if (name !== ALICE && name !== BOB) throw new Refusal('not_logged_in', 'log in again');
        return { ...fakeCaller, accountId: name, username: name };
      },
    },
  });
  const edge = await startEdge(control, more);
  return {
    ...edge,
    folderOf,
    volumes,
    uses,
    opened: () => opened,
    uploadsLeft: (id) => readdir(uploadFolder(folderOf(id))).catch(() => []),
    exchange: (...pieces) => exchange(edge.port, pieces),
    async stop() {
      await uses.stop(new Error('the test is over'));
      await edge.stop();
      await rm(base, { recursive: true });
    },
  };
}

function volumeOf(id: string, ownerName: string): Volume {
  return {
    id: volumeId(id),
    ownerId: userId(ownerName),
    ownerName,
    createdAtMs: 0,
    name: id,
    regionId: regionId('region'),
    type: 'filesystem',
    sizeGB: 2,
    usageBytes: 0,
    source: null,
    status: 'Bound',
    generation: 1,
    operation: beginOperation('createVolume', 'user', 0),
  };
}

function exchange(port: number, pieces: (string | Buffer)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const got: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => {
      for (const piece of pieces) socket.write(piece);
    });
    socket.on('data', (piece) => got.push(piece));
    socket.on('error', reject);
    socket.on('close', () => resolve(Buffer.concat(got).toString('latin1')));
  });
}
