/** One account attacks what instances share, all bombs at once, while another account works. */
import { bomb, bombs, useHost, type Bomb } from '../../fixtures/bombs.ts';
import { firstLaunchRequest, nodePortOf, running } from '../../fixtures/first-launch.ts';
import { runCell } from '../../fixtures/jupyter.ts';
import { login, PASSWORD, until, type ServerProcess } from '../../fixtures/server-process.ts';
import type { SshUser } from '../../fixtures/ssh-user.ts';

const VOLUME = '/root/volume';
/** A process that gives back a million objects of the kernel ends late. */
const END_MS = 230_000;
const USERNAME = 'neighbor';
const PAGE = { pager: { currentPage: 1, pageSize: 10 } };

/** Bombs that need little memory share an instance; `memory` runs out in time only alone. */
const attackers: readonly (readonly Bomb[])[] = [
  ['epoll watches'],
  ['inotify instances'],
  ['AIO contexts', 'processors'],
  ['memory'],
  ['processes'],
  ['terminals', 'connections'],
  ['the root disk', 'files of the engine'],
];
if (attackers.flat().length !== bombs.length) throw new Error('a bomb has no instance');

export const useNames = ['list', 'launch', 'exec', 'ssh', 'cell', 'fsync', 'host'] as const;
export type Use = (typeof useNames)[number];

export interface Exhaustion {
  /** Token of the neighbor. */
  token: string;
  /** What the neighbor and the host do. Each throws where it fails. */
  uses: Record<Use, () => Promise<void>>;
  /** Starts all bombs; they end by themselves. */
  attack(seconds: number): Promise<void>;
  /** What each bomb printed, or why its instance was stopped. Waits for the ends of all. */
  reports(): Promise<Record<string, string>>;
  /** Peaks of the instance of a bomb, as shares of its limits. */
  peaks(of: string): Promise<{ memory: number; processes: number }>;
  /** Terminates the instances of the attacker, and waits until nothing is left of them. */
  end(): Promise<void>;
}

/** `user`: has a key to log in with. The server raises the limits of the kernel. */
export async function makeExhaustion(server: ServerProcess, user: SshUser): Promise<Exhaustion> {
  const { client: attacker } = await login(server);
  await attacker.createUser({ username: USERNAME, email: 'neighbor@test.test', password: PASSWORD, balance: 1_000 });
  const { client, token } = await login(server, USERNAME);
  await client.createSshKey({ name: 'laptop', publicKey: user.publicKey });
  const request = await firstLaunchRequest(client, { name: 'work' });
  const { volume } = await client.createVolume({
    name: 'work',
    sizeGB: 1,
    region: request.region,
    volumeType: 'filesystem',
  });
  const mount = { mountPath: VOLUME, remoteStorageName: 'work', remoteStorageId: volume.id, type: 'filesystem' };
  const { instanceId } = await client.launch({ ...request, remoteStorages: [mount] });
  const instance = await running(client, instanceId);
  const sshPort = nodePortOf(instance, 22).nodePort;
  const notebookUrl = `${server.gatewayUrl}${instance.instanceRuntimeInfo.subUrl}`;
  const ids: string[] = [];

  const says = async (expected: string, said: Promise<{ stdout: string }>): Promise<void> => {
    const result = await said;
    if (result.stdout !== expected) throw new Error(`not ${expected}: ${JSON.stringify(result)}`);
  };
  const uses: Exhaustion['uses'] = {
    list: async () => void (await client.listInstances(PAGE)),
    async launch() {
      const { instanceId: another } = await client.launch(await firstLaunchRequest(client, { name: 'more' }));
      await running(client, another);
      void client.terminate({ instanceId: another });
    },
    exec: () => says('in\n', client.exec({ instanceId, command: ['echo', 'in'] })),
    ssh: () => says('in\n', user.sh(sshPort, '$SSH -tt "tty >/dev/null && echo in" | tr -d "\\r"')),
    async cell() {
      const printed = await runCell(notebookUrl, { authorization: `Bearer ${token}` }, 'print(6 * 7)');
      if (printed !== '42\n') throw new Error(`the cell printed ${printed}`);
    },
    fsync: () =>
      says(
        '1048576\n',
        client.exec({
          instanceId,
          command: ['python3', '-c', SAVE, `${VOLUME}/file`],
        }),
      ),
    host: useHost,
  };
  async function reportOf(id: string, number: number): Promise<string> {
    const ask = async (): Promise<string> => {
      const { status, diagnosisReason } = (await attacker.getInstance({ instanceId: id })).instance.instanceRuntimeInfo;
      if (status !== 'Running') return `${status}: ${diagnosisReason}`;
      const command = ['cat', `/root/bomb-${number}.log`];
      // An instance without memory takes no command.
      return attacker.exec({ instanceId: id, command }).then(
        ({ stdout }) => stdout,
        () => '',
      );
    };
    return until(ask, (said) => /ended|^Stopped/.test(said));
  }

  return {
    token,
    uses,
    async attack(seconds) {
      ids.length = 0;
      for (const each of attackers) {
        const { instanceId: id } = await attacker.launch({ ...request, name: each.join(' and ') });
        ids.push(id);
      }
      for (const id of ids) await running(attacker, id);
      await Promise.all(
        ids.map(async (id, at) => {
          for (const [number, name] of (attackers[at] ?? []).entries()) {
            const stdin = bomb(name, seconds);
            const file = `/root/bomb-${number}`;
            const detached = `cat >${file}.py; setsid sh -c 'python3 ${file}.py; echo ended with $?' >${file}.log 2>&1 </dev/null &`;
            await attacker.exec({ instanceId: id, command: ['sh', '-c', detached], stdin });
          }
        }),
      );
    },
    async reports() {
      const found = attackers.flatMap((each, at) =>
        each.map(async (name, number) => [name, await reportOf(ids[at] ?? '', number)] as const),
      );
      return Object.fromEntries(await Promise.all(found));
    },
    async peaks(of) {
      const id = ids[attackers.findIndex((each) => each.some((name) => name === of))] ?? '';
      // Beside bombs a sample can come late.
      const { series, now } = await until(
        () => attacker.metrics({ instanceId: id }),
        (metrics) => metrics.now !== null,
      );
      const peakOf = (values: (number | null)[]): number => Math.max(...values.map((value) => value ?? 0));
      return {
        memory: peakOf(series.memoryBytes.max) / (now?.memoryLimitBytes ?? Infinity),
        processes: peakOf(series.processes.max) / (now?.processLimit ?? Infinity),
      };
    },
    async end() {
      for (const id of ids) await attacker.terminate({ instanceId: id });
      await until(
        () => attacker.listInstances({ pager: { currentPage: 1, pageSize: 100 } }),
        ({ instances }) => instances.every(({ instanceRuntimeInfo: { phase } }) => phase === 'Cleaned'),
        END_MS,
      );
    },
  };
}

const SAVE = `import os, sys
with open(sys.argv[1], 'wb') as file:
    print(file.write(os.urandom(1 << 20)))
    file.flush()
    os.fsync(file.fileno())`;
