/**
 * A real card, over the life of an instance that has it: within eight minutes. BERTH_TEST_TORCH may
 * name an image of the machine's engine with PyTorch, for the figures under load.
 */
import { execFile } from 'node:child_process';
import { env } from 'node:process';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { startInside } from '../docker/e2e/in-process-server.ts';
import { bringsProgram } from '../fixtures/programs.ts';
import { until } from '../fixtures/server-process.ts';

const DEADLINE_MS = 480_000;
const MIB = 1024 ** 2;
const work = `
import torch, time
one = torch.ones(8192, 8192, device='cuda', dtype=torch.bfloat16)
end = time.time() + 60
while time.time() < end: one @ one; torch.cuda.synchronize()
`;

bringsProgram('nvidia-smi');
const ask = (...args: string[]): Promise<string> =>
  promisify(execFile)('nvidia-smi', args).then(
    ({ stdout }) => stdout.trim(),
    () => '',
  );
const query = async (...fields: string[]): Promise<string[]> =>
  (await ask(`--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits', '--id=0')).split(', ');

test(
  'a card arrives with its model, works, is waited for, outlives stops and is given back',
  async ({ skip }) => {
    skip(!(await ask('-L')).startsWith('GPU 0: '), 'nvidia-smi -L finds no card on this machine');
    const [uuid = '', model, memory] = await query('uuid', 'name', 'memory.total');
    const cards = (await ask('-L')).split('\n').filter((line) => line.startsWith('GPU ')).length;
    const scene = await startInside({ nodePorts: '32740-32759', limits: {} });
    onTestFinished(() => scene.stop());
    const { client, sees } = scene;
    const { region, imageId: usual } = scene.server.example;
    const torch = env['BERTH_TEST_TORCH'];
    const imageId = torch === undefined ? usual : await scene.offer(torch);

    const { instanceInfos } = await client.catalog({});
    const family =
      instanceInfos.find(({ gpuName }) => gpuName === model) ?? expect.fail(`no type has the model ${model}`);
    const types = family.regionInfos.flatMap(({ instanceTypeInfos }) => instanceTypeInfos);
    const type = types.find(({ gpuNum }) => gpuNum === 1) ?? expect.fail('no type has one card');
    expect(type.gpuMemoryGB).toBeCloseTo((Number(memory) * MIB) / 1024 ** 3, 0);

    const launch = async (): Promise<string> => {
      const { instanceId } = await client.launch({
        name: 'card',
        region,
        imageId,
        instanceTypeId: type.instanceTypeId,
        billing: { chargeMode: 'perHour', duration: 1 },
        remoteStorages: [],
        nodePorts: [],
        instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
      });
      return instanceId;
    };
    const instanceId = await launch();
    const command = async (...words: string[]): Promise<string> => {
      const { exitCode, stdout, stderr } = await client.exec({ instanceId, command: words });
      return exitCode === 0 ? stdout : `failed: ${stdout}${stderr}`;
    };
    const running = () => sees(instanceId, { status: 'Running' }, DEADLINE_MS);
    const stop = async (): Promise<void> => {
      await client.stop({ instanceId });
      await sees(instanceId, { status: 'Stopped' });
    };
    await running();
    expect(await command('nvidia-smi', '-L')).toContain(uuid);
    if (cards === 1) await expect(launch()).rejects.toThrow(/short of 1 GPU/);

    if (torch !== undefined) {
      await command('sh', '-c', `nohup python3 -c "${work}" >/tmp/work 2>&1 &`);
      const { now } = await until(
        () => client.metrics({ instanceId }),
        (read) => (read.now?.gpus?.[0]?.busyPercent ?? 0) > 80,
      );
      const [busy, used] = await query('utilization.gpu', 'memory.used');
      expect(Number(busy)).toBeGreaterThan(80);
      expect(Math.abs((now?.gpus?.[0]?.memoryUsedBytes ?? 0) / MIB - Number(used))).toBeLessThan(256);
    }

    await stop();
    await client.start({ instanceId });
    await running();
    expect(await command('nvidia-smi', '-L')).toContain(uuid);

    await stop();
    await client.start({ instanceId, withoutGpu: true });
    await running();
    expect(await command('sh', '-c', 'ls /dev')).not.toContain('nvidia0');

    await stop();
    await client.start({ instanceId });
    await running();
    await command('sh', '-c', 'rm /dev/nvidia[0-9]*');
    expect(await command('nvidia-smi', '-L')).not.toContain(uuid);
    await client.restart({ instanceId });
    await until(
      () => command('nvidia-smi', '-L').catch(() => ''),
      (said) => said.includes(uuid),
    );
    await scene.removeAll(instanceId);
    expect(await ask('--query-compute-apps=pid', '--format=csv,noheader')).toBe('');
  },
  DEADLINE_MS,
);
