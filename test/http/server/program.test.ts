/** The program as an operator meets it: start, error messages, shutdown. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { program } from '../../../scripts/lib/program.mjs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { makeSshKey } from '../../fixtures/ssh.ts';
import { until } from '../../fixtures/server-process.ts';

const ROOT = join(import.meta.dirname, '../../..');
const PASSWORD = 'correct horse battery';

interface Program {
  child: ChildProcess;
  output: () => string;
  /** Resolves with the exit code. */
  ended: Promise<number | null>;
  /** Resolves with the API's address once it serves. */
  serves: () => Promise<string>;
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-program-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function start(folder: string, env: Record<string, string> = {}, args = program): Program {
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      BERTH_DATA: folder,
      BERTH_ENGINE: 'simulated',
      BERTH_LISTEN: '127.0.0.1:0',
      BERTH_GATEWAY_LISTEN: '127.0.0.1:0',
      BERTH_ADMIN_PASSWORD: PASSWORD,
      ...env,
    },
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => void (text += bytes.toString()));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return {
    child,
    output: () => text,
    ended,
    serves: async () => {
      const found = await until(
        async () => ({ text, code: child.exitCode }),
        (seen) => seen.text.includes('Berth is ready.') || seen.code !== null,
      );
      const url = /API\s+(http:\/\/\S+)\/api/.exec(found.text)?.[1];
      if (url === undefined) throw new Error(`it does not serve:\n${found.text}`);
      return url;
    },
  };
}

async function admin(apiUrl: string) {
  const baseUrl = `${apiUrl}/api`;
  const { accessToken } = await makeClient({ baseUrl }).login({ username: 'admin', password: PASSWORD });
  return makeClient({ baseUrl, credential: { kind: 'token', token: accessToken } });
}

async function request(client: Awaited<ReturnType<typeof admin>>) {
  const { images } = await client.listImages({ pager: { currentPage: 1, pageSize: 1 } });
  const regionInfo = (await client.catalog()).instanceInfos[0]?.regionInfos[0];
  return {
    name: 'one',
    imageId: images[0]?.imageId ?? '',
    instanceTypeId: regionInfo?.instanceTypeInfos[0]?.instanceTypeId ?? '',
    region: regionInfo?.regionId ?? '',
    billing: { chargeMode: 'perHour', duration: 1 } as const,
    remoteStorages: [],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
    nodePorts: [],
  };
}

test('ends on SIGTERM while it starts, also as the first process of a container', async () => {
  const program = start(await newFolder(), { BERTH_ENGINE: 'docker', BERTH_ROLE: 'gateway' });
  await until(
    async () => program.output(),
    (text) => text.includes('waiting for the API process'),
  );
  program.child.kill('SIGTERM');
  // The kernel's own handling, which such a process lacks, would leave no exit code.
  expect(await program.ended).toBe(0);
});

test('stops cleanly on SIGTERM, and has its instances and the prices of meanwhile at the next start', async () => {
  const folder = await newFolder();
  const first = start(folder);
  const client = await admin(await first.serves());
  const { instanceId } = await client.launch(await request(client));
  const pager = { currentPage: 1, pageSize: 1 };
  const [type] = (await client.listTypes({ pager })).types;
  if (!type) throw new Error('no type is offered');
  const { instanceTypeId, version } = type;
  const prices = { ...type.prices, perHour: 9 };
  const fromUnixMs = Date.now() + 1_500;
  await client.updateType({ instanceTypeId, version, prices, fromUnixMs });
  first.child.kill('SIGTERM');
  expect(await first.ended).toBe(0);
  await until(
    async () => Date.now(),
    (now) => now > fromUnixMs,
  );
  const again = await admin(await start(folder).serves());
  expect((await again.listPrices({ pager, instanceTypeId })).changes[0]).toMatchObject({ prices, scheduled: false });
  expect((await again.listTypes({ pager })).types[0]).toMatchObject({ prices, version: 2 });
  const listed = await until(
    () => again.listInstances({ pager: { currentPage: 1, pageSize: 10 } }),
    ({ instances }) => instances[0]?.instanceRuntimeInfo.status === 'Running',
  );
  expect(listed.instances.map(({ instanceMetadata }) => instanceMetadata.instanceId)).toEqual([instanceId]);
});

test('refuses a second start on the same data folder, naming its owner', async () => {
  const folder = await newFolder();
  const first = start(folder);
  await first.serves();
  const second = start(folder);
  expect(await second.ended).toBe(1);
  expect(second.output()).toContain(`process ${first.child.pid}`);
});

test('names a port in use and an invalid setting', async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void taken.close());
  const address = taken.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const blocked = start(await newFolder(), { BERTH_LISTEN: `127.0.0.1:${port}` });
  expect(await blocked.ended).toBe(1);
  expect(blocked.output()).toMatch(
    new RegExp(`127.0.0.1:${port}.* is in use by another program; set other addresses in BERTH_LISTEN`),
  );

  const wrong = start(await newFolder(), { BERTH_NODE_PORTS: 'all' });
  expect(await wrong.ended).toBe(1);
  expect(wrong.output()).toMatch(/BERTH_NODE_PORTS: must be first-last/);
});

test('serves without an engine, reports the outage, and instances wait with a reason', async () => {
  const folder = await newFolder();
  const program = start(folder, {
    BERTH_ENGINE: 'docker',
    DOCKER_HOST: `unix://${folder}/no.sock`,
    BERTH_REGISTRY_IMAGES: 'off',
  });
  const apiUrl = await program.serves();
  const client = await admin(apiUrl);
  const { regions } = await client.listRegions();
  expect(regions[0]?.engine).toMatchObject({ answers: false });
  await until(
    async () => program.output(),
    (text) => text.includes('BERTH_ENGINE=simulated npm run up'),
  );
  expect(program.output()).toMatch(/No instance starts yet: .*no\.sock/);
  expect((await fetch(`${apiUrl}/readyz`)).status).toBe(200);
  await client.launch(await request(client));
  const waiting = await until(
    () => client.listInstances({ pager: { currentPage: 1, pageSize: 1 } }),
    ({ instances }) => instances[0]?.instanceRuntimeInfo.diagnosisReason === 'EngineUnreachable',
  );
  expect(waiting.instances[0]?.instanceRuntimeInfo.status).toMatch(/Initializing|Starting/);
  program.child.kill('SIGTERM');
  expect(await program.ended).toBe(0);
});

test('the first start stores a generated password in a file, and names the file in an output that is no terminal', async () => {
  const folder = await newFolder();
  const first = start(folder, { BERTH_ADMIN_PASSWORD: '' });
  const baseUrl = `${await first.serves()}/api`;
  const password = (await readFile(join(folder, 'admin-password'), 'utf8')).trim();
  expect(first.output()).toContain(`its password is in the file ${join(folder, 'admin-password')}`);
  expect(first.output()).not.toContain(password);
  await makeClient({ baseUrl }).login({ username: 'admin', password });
  first.child.kill('SIGTERM');
  await first.ended;
  const second = start(folder, { BERTH_ADMIN_PASSWORD: '' });
  await second.serves();
  expect(second.output()).not.toContain(password);
});

test('ends without its secrets.key, says what to do, and starts once the key is declared lost', async () => {
  const folder = await newFolder();
  const first = start(folder);
  await first.serves();
  first.child.kill('SIGTERM');
  await first.ended;
  await rm(join(folder, 'secrets.key'));
  const refused = start(folder);
  expect(await refused.ended).toBe(1);
  const id = /secrets\.key is missing.*BERTH_LOST_SECRETS_KEY=([0-9a-f]{8})/.exec(refused.output())?.[1];
  const recovered = start(folder, { BERTH_LOST_SECRETS_KEY: id ?? '' });
  await admin(await recovered.serves());
});

test('`npm run up` on an installed checkout becomes the server, and passes signals on', async () => {
  const program = start(await newFolder(), { BERTH_SETUP: 'off' }, ['scripts/up.mjs']);
  await admin(await program.serves());
  program.child.kill('SIGTERM');
  expect(await program.ended).toBe(0);
});

describe('`npm run first`', () => {
  const first = async (apiUrl: string, folder: string, ...more: string[]) => {
    const args = ['scripts/first.mjs', '--api', apiUrl, '--password-file', join(folder, 'admin-password'), ...more];
    const child = start(folder, { HOME: folder }, args);
    return { code: await child.ended, text: child.output() };
  };

  test('launches with stages, ends with a notebook link, an ssh command and the costs, and finds the instance again', async () => {
    const folder = await newFolder();
    const apiUrl = await start(folder, { BERTH_ADMIN_PASSWORD: '' }).serves();
    const without = await first(apiUrl, folder);
    expect(without).toMatchObject({ code: 0, text: expect.stringContaining('ssh-keygen -t ed25519') });
    await mkdir(join(folder, '.ssh'));
    const { publicKey, remove } = await makeSshKey();
    onTestFinished(remove);
    await writeFile(join(folder, '.ssh/id_ed25519.pub'), `${publicKey} ada@here\n`);
    const { code, text } = await first(apiUrl, folder, '--name', 'work');
    expect(code, text).toBe(0);
    expect(text).toMatch(
      /^Instance work \((notebook-\S+)\)\n[^]*\n {2}Readiness \d+\.\d s\n\n {2}Notebook {2}http:\S+\/open\?key=\S+\n/,
    );
    expect(text).toMatch(
      /\n {2}ssh {7}ssh -p \d+ root@\S+\n {2}Money {5}\$0\.\d+ an hour for what runs now; the \$\d+\.\d\d of the account last for years\n$/,
    );
    const again = await first(apiUrl, folder, '--name', 'work');
    expect(again.text).toContain(/notebook-[0-9a-f-]+/.exec(text)?.[0]);
    const url = /http:\S+\/open\?key=\S+/.exec(again.text)?.[0] ?? '';
    expect((await fetch(url, { redirect: 'manual' })).status).toBeLessThan(400);
  });

  test('names what is wrong: the address, the password, the file', async () => {
    const folder = await newFolder();
    expect(await first('http://127.0.0.1:1', folder)).toMatchObject({
      code: 1,
      text: expect.stringMatching(/cannot be read: name another/),
    });
    await writeFile(join(folder, 'admin-password'), 'wrong password');
    expect((await first('http://127.0.0.1:1', folder)).text).toMatch(/^http:\/\/127\.0\.0\.1:1: /);
    const apiUrl = await start(folder).serves();
    expect(await first(apiUrl, folder)).toMatchObject({ code: 1, text: expect.stringMatching(/password/) });
  });
});

test('the log has ISO times and level names, and is readable if asked', async () => {
  /** The first line, which no server follows. */
  const firstLine = async (env: Record<string, string> = {}): Promise<string> => {
    const program = start(await newFolder(), env);
    const text = await until(
      async () => program.output(),
      (said) => said.includes('\n'),
    );
    program.child.kill('SIGKILL');
    return text;
  };
  expect(await firstLine()).toMatch(
    /^\{"level":"info","time":"\d{4}-\d\d-\d\dT[\d:.]+Z",.*"msg":"Berth [\d.]+ starts"\}\n/,
  );
  expect(await firstLine({ BERTH_LOG_FORMAT: 'readable' })).toMatch(/^\[\d\d:\d\d:\d\d\] INFO: Berth [\d.]+ starts\n/);
});
