/**
 * The first launch: logs in, registers the user's ssh key, launches an instance or takes the
 * running one of that name, shows its stages, and prints a notebook link, an ssh command and what
 * the account pays.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { homedir, hostname } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { InstanceObject } from '../src/contract/compute/instance.ts';
import { Unready, runCommand, say } from './lib/run.mjs';

// Must run before large modules load, as in `src/main/berth.mjs`.
enableCompileCache();

const { ApiError, makeClient } = await import('../src/contract/client.ts');

const POLL_MS = 300;
const HOUR_MS = 3_600_000;
const PAGE = { pager: { currentPage: 1, pageSize: 100 } };
const KEYS = ['id_ed25519.pub', 'id_ecdsa.pub', 'id_rsa.pub'];

const ON_THE_WAY: readonly string[] = ['Starting', 'Initializing', 'PullingImage', 'Restarting'];

const word = { type: 'string' } as const;
const { values } = parseArgs({ options: { api: word, username: word, 'password-file': word, name: word } });
const api = (values.api ?? 'http://127.0.0.1:8080').replace(/\/(api\/?)?$/, '');
const username = values.username ?? 'admin';
const name = values.name ?? 'first';
const baseUrl = `${api}/api`;

function contentOf(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return null;
  }
}

async function askPassword(): Promise<string> {
  if (!process.stdin.isTTY)
    throw new Unready('No terminal to ask for the password on: name a file with --password-file.');
  const dialog = createInterface({ input: process.stdin, output: process.stdout });
  spawnSync('stty', ['-echo'], { stdio: 'inherit' });
  try {
    return await dialog.question(`password of ${username} at ${api}: `);
  } finally {
    spawnSync('stty', ['echo'], { stdio: 'inherit' });
    dialog.close();
    say('');
  }
}

async function readPassword(): Promise<string> {
  const file = values['password-file'];
  if (file === undefined) {
    const first = join(process.env['BERTH_DATA'] ?? '/var/lib/berth', 'admin-password');
    return (username === 'admin' ? contentOf(first) : null) ?? askPassword();
  }
  const password = contentOf(file);
  if (password === null) throw new Unready(`The file ${file} cannot be read: name another with --password-file.`);
  return password;
}

type Client = ReturnType<typeof makeClient>;

/** Whether the account has a key of this user now. */
async function registerKey(client: Client): Promise<boolean> {
  const publicKey = KEYS.map((file) => contentOf(join(homedir(), '.ssh', file))).find((key) => key !== null);
  if (publicKey === undefined || publicKey === null) return false;
  const { sshKeys } = await client.listSshKeys({});
  const blob = Buffer.from(publicKey.split(' ')[1] ?? '', 'base64');
  const fingerprint = `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
  if (!sshKeys.some((key) => key.fingerprint === fingerprint))
    await client.createSshKey({ name: hostname(), publicKey });
  return true;
}

async function launchOrFind(client: Client): Promise<string> {
  const { instances } = await client.listInstances(PAGE);
  const isUsable = ({ instanceSpecInfo, instanceRuntimeInfo }: InstanceObject): boolean =>
    instanceSpecInfo.name === name && ['Running', ...ON_THE_WAY].includes(instanceRuntimeInfo.status);
  const found = instances.find(isUsable);
  if (found !== undefined) return found.instanceMetadata.instanceId;
  const regionInfo = (await client.catalog()).instanceInfos[0]?.regionInfos[0];
  const instanceType = regionInfo?.instanceTypeInfos[0];
  const image = (await client.listImages(PAGE)).images[0];
  if (regionInfo === undefined || instanceType === undefined || image === undefined)
    throw new Unready('The installation offers no image or instance type yet: try again in a minute.');
  const { instanceId } = await client.launch({
    name,
    imageId: image.imageId,
    instanceTypeId: instanceType.instanceTypeId,
    region: regionInfo.regionId,
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: [],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
    nodePorts: [8000],
  });
  return instanceId;
}

/** Prints each stage once it ends, and what the current one does. */
async function untilRunning(client: Client, instanceId: string): Promise<InstanceObject> {
  const shown = new Set<string>();
  const show = (line: string): void => {
    if (!shown.has(line)) say(`  ${line}`);
    shown.add(line);
  };
  for (;;) {
    // Read first: stages that are read after `Running` include all that led to it.
    const { instance } = await client.getInstance({ instanceId });
    const { operations } = await client.listOperations({ instanceId, ...PAGE });
    for (const { name: stage, startedAtUnixMs, endedAtUnixMs, text } of operations[0]?.stages ?? []) {
      if (endedAtUnixMs !== null) show(`${stage} ${((endedAtUnixMs - startedAtUnixMs) / 1_000).toFixed(1)} s`);
      else if (text !== '') show(`${stage}: ${text}`);
    }
    const { status, diagnosisMessage } = instance.instanceRuntimeInfo;
    if (status === 'Running') return instance;
    if (!ON_THE_WAY.includes(status)) throw new Unready(`The instance is ${status}: ${diagnosisMessage}`);
    if (diagnosisMessage !== '') show(diagnosisMessage);
    await sleep(POLL_MS);
  }
}

/** What the account pays now, and for how long. */
async function moneyLine(client: Client): Promise<string> {
  const { available, burnRate, lastsUntilUnixMs } = await client.forecast({});
  if (lastsUntilUnixMs === null) return `nothing is charged now; the account has $${available.toFixed(2)}`;
  const hours = Math.floor((lastsUntilUnixMs - Date.now()) / HOUR_MS);
  const days = Math.floor(hours / 24);
  const span = hours < 48 ? `${hours} hours` : days < 1_000 ? `${days} days` : 'for years';
  return `$${burnRate} an hour for what runs now; the $${available.toFixed(2)} of the account last ${span}`;
}

await runCommand(async () => {
  try {
    const login = { username, password: await readPassword() };
    const { accessToken: token } = await makeClient({ baseUrl }).login(login);
    const client = makeClient({ baseUrl, credential: { kind: 'token', token } });
    const hasKey = await registerKey(client);
    const instanceId = await launchOrFind(client);
    say(`Instance ${name} (${instanceId})`);
    const { instanceSpecInfo: spec } = await untilRunning(client, instanceId);
    const { url } = await client.open({ instanceId });
    const port = spec.nodePorts.find((one) => one.port === 22)?.nodePort;
    say('');
    say(`  Notebook  ${url}`);
    say('            The link is valid once, for a minute; npm run first prints another.');
    if (hasKey) say(`  ssh       ssh -p ${port} root@${spec.regionInfo.sshAddress}`);
    else say('  ssh       needs a key: make one with ssh-keygen -t ed25519, then run npm run first again');
    say(`  Money     ${await moneyLine(client)}`);
  } catch (error) {
    if (error instanceof ApiError) throw new Unready(`${api}: ${error.message}`);
    throw error;
  }
});
