/**
 * A server with few file descriptors: a flood of one listener takes none from the other listener
 * and the store, and leaves connections to other addresses.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { askFrom, flood, HALF_A_HANDSHAKE, HALF_A_HEAD } from '../../fixtures/client-addresses.ts';
import { longDescribe } from '../../fixtures/long-test.ts';
import { PASSWORD, startServerProcess, until, type ServerProcess } from '../../fixtures/server-process.ts';

const FLOOD = 600;
const OPEN_FILES = 256;
/** Share of one address: half of what `src/main/open-files.ts` derives from the files. */
const SHARES = { api: 9, gateway: 27 };
const FLOODER = '127.0.0.3';
const ADDRESSES = ['127.0.0.2', FLOODER];

describe('over plain HTTP', () => {
  testFloods({ isTls: false, nodePorts: '32270-32274', text: HALF_A_HEAD });
});
longDescribe('over TLS', () => {
  testFloods({ isTls: true, nodePorts: '32275-32279', text: HALF_A_HANDSHAKE });
});

function testFloods({ isTls, nodePorts, text }: { isTls: boolean; nodePorts: string; text: string }): void {
  let folder: string;
  let server: ServerProcess;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'berth-certificate-'));
    const settings = { BERTH_ENGINE: 'simulated', ...(isTls ? await certificate(folder) : {}) };
    server = await startServerProcess({ nodePorts, settings, openFiles: OPEN_FILES });
  });
  afterAll(async () => {
    await server?.stop();
    await rm(folder, { recursive: true });
  });

  const portOf = (listener: 'api' | 'gateway'): number =>
    Number(new URL(listener === 'api' ? server.apiUrl : server.gatewayUrl).port);

  /** Uses the store, by a login and a list. */
  async function listFrom(address: string): Promise<unknown> {
    const post = async (path: string, body: object, headers = {}): Promise<Record<string, unknown>> => {
      const target = { port: portOf('api'), address, isTls, path: `/api${path}`, method: 'POST' };
      const answer = await askFrom({
        ...target,
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      });
      expect(answer.status, answer.text).toBe(200);
      return JSON.parse(answer.text);
    };
    const { accessToken } = await post('/user/login', { username: 'admin', password: PASSWORD });
    const authorization = `Bearer ${String(accessToken)}`;
    return (await post('/instance/list', { pager: { currentPage: 1, pageSize: 10 } }, { authorization }))['instances'];
  }

  test.each(['api', 'gateway'] as const)(
    'both listeners answer under a flood of half-sent requests to the %s',
    async (flooded) => {
      const clients = await flood({ port: portOf(flooded), count: FLOOD, address: FLOODER, text });
      onTestFinished(() => clients.close());
      await until(
        async () => clients.open(),
        (count) => count <= SHARES[flooded],
      );
      for (const address of ADDRESSES) {
        expect(await listFrom(address)).toEqual([]);
        const answer = await askFrom({ port: portOf('gateway'), address, isTls });
        expect(answer.status).toBe(404);
      }
      const name = flooded === 'api' ? 'API' : 'gateway';
      expect(server.output()).toContain(`the ${name} has reached its limit of client connections`);
    },
  );
}

async function certificate(folder: string): Promise<Record<string, string>> {
  const made = await generate([{ name: 'commonName', value: 'berth.test' }], { keyType: 'ec' });
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  await writeFile(cert, made.cert);
  await writeFile(key, made.private);
  return {
    BERTH_API_TLS_CERT: cert,
    BERTH_API_TLS_KEY: key,
    BERTH_GATEWAY_TLS_CERT: cert,
    BERTH_GATEWAY_TLS_KEY: key,
  };
}
