/** A stopped instance on a real engine, opened by programs: of its owner and of strangers. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startInside, type ServerInside } from './in-process-server.ts';
import { login, until } from '../../fixtures/server-process.ts';

const PORT = 8000;
const IMAGE_DEADLINE_MS = 600_000;

let inside: ServerInside;
let token: string;

beforeAll(async () => {
  inside = await startInside({ nodePorts: '31750-31759', limits: {} });
  token = (await login(inside.server)).token;
  await until(
    () => inside.client.listImages({ pager: { currentPage: 1, pageSize: 1 } }),
    ({ images }) => images.some(({ state }) => state === 'Ready'),
    IMAGE_DEADLINE_MS,
  );
}, IMAGE_DEADLINE_MS);
afterAll(() => inside?.stop());

/** Status and body of an answer, as curl prints them. */
async function curl(...options: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('curl', ['-sS', '-w', ' %{http_code}', ...options]);
  return stdout.trim();
}

test('a request of the owner, and of a visitor where allowed, is held until the program answers', async () => {
  const { client, server } = inside;
  const startCommand = `python3 -c "
import http.server, time
time.sleep(2)
class Awake(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'awake')
    do_POST = do_GET
http.server.HTTPServer(('', ${PORT}), Awake).serve_forever()"`;
  const instanceId = await inside.launch({ startCommand });
  await inside.sees(instanceId, { status: 'Running' }, 120_000);
  await client.setPortAccess({ instanceId, port: PORT, access: 'public' });
  const stop = async (): Promise<void> => {
    await client.stop({ instanceId });
    await inside.sees(instanceId, { status: 'Stopped' }, 60_000);
  };
  await stop();
  const address = `${server.gatewayUrl}/forward/${instanceId}/${PORT}/`;
  const owner = ['-H', `Authorization: Bearer ${token}`];
  expect(await curl(...owner, address)).toMatch(/the instance is Stopped.* 503$/s);
  await client.wake({ instanceId, by: 'owner' });
  expect(await curl('-X', 'POST', address)).toMatch(/the instance is Stopped.* 503$/s);
  expect(await curl(...owner, address)).toBe('awake 200');
  await stop();
  await client.wake({ instanceId, by: 'visitors', visitorsPerDay: 1 });
  expect(await curl(address)).toMatch(/X-Berth-Wake.* 503$/s);
  await inside.sees(instanceId, { status: 'Stopped' });
  expect(await curl('-H', 'X-Berth-Wake: 1', address)).toBe('awake 200');
  await stop();
  expect(await curl('-X', 'POST', address)).toMatch(/1 times in 24 hours.* 503$/s);
  await inside.sees(instanceId, { status: 'Stopped' });
  await inside.removeAll(instanceId);
});
