/** The notebook server under `images/start.sh`, in real containers of the default image. */
import { expect, it } from 'vitest';
import { longTest } from '../../fixtures/long-test.ts';
import { eventually, start } from './start-script-fixture.ts';

type Instance = Awaited<ReturnType<typeof start>>;

const answers = (instance: Instance): Promise<void> =>
  eventually(async () => expect((await instance.http('api/status')).status).toBe(200));

const kernelOf = async (instance: Instance): Promise<string> =>
  (await instance.cell('import os; print(os.getpid())')).trim();

const isAlive = (instance: Instance, pid: string): Promise<string> =>
  instance.ssh(`kill -0 ${pid} 2>/dev/null && echo yes || echo no`);

it('says when the notebook server listens, and that kernels ended with a killed one', async () => {
  const instance = await start({});
  await answers(instance);
  await eventually(async () => expect(await instance.notebookSaid()).toEqual(['starting', 'ready']));
  // The first kernel is a prepared process, the second one is started by Jupyter.
  const prepared = "pgrep -f '[-]m berth_lab'";
  await eventually(async () => expect(await instance.ssh(`${prepared} || true`)).toMatch(/^\d+\n$/));
  const kernels = [await kernelOf(instance), await kernelOf(instance)];
  // The image is compiled, so that an instance need not do it at its start.
  expect(await instance.ssh("find / -xdev -name '*.pyc' -newer /etc/berth/name")).toBe('');
  expect((await instance.ssh(prepared)).trim()).toBe(kernels[0]);
  const server = (await instance.ssh('cat /dev/shm/berth/notebook.pid')).trim();
  const others = (await instance.ssh('nohup sleep 600 >/dev/null 2>&1 & echo $!')).trim();
  // Kernels end by themselves as well.
  await instance.ssh(`kill -KILL ${server} ${kernels[1]}`);
  await eventually(async () =>
    expect((await instance.notebookSaid()).slice(2)).toEqual([
      expect.stringMatching(/^ended 137 \d{10} 2 Killed$/),
      'starting',
      'ready',
    ]),
  );
  for (const pid of kernels) expect(await isAlive(instance, pid)).toBe('no\n');
  expect(await isAlive(instance, others)).toBe('yes\n');
  expect(await instance.ssh('cat /var/log/berth/notebook.state')).toBe('ready\n');
});

const UNDELAYED = `from unittest.mock import MagicMock
from tornado.http1connection import HTTP1Connection
with open("/etc/berth/jupyter-config") as file: exec(file.read(), {"c": MagicMock()})
print(HTTP1Connection.detach(MagicMock()).set_nodelay.mock_calls)`;

it('answers export formats out of the image until packages change, and sends small messages at once', async () => {
  const instance = await start({});
  await answers(instance);
  const formats = async (): Promise<object> => (await (await instance.http('api/nbconvert')).json()) as object;
  const list = await formats();
  expect(list).toHaveProperty('html.output_mimetype', 'text/html');
  await instance.ssh(`echo '{"of": "the image"}' >/usr/share/jupyter/berth-nbconvert.json`);
  expect(await formats()).toEqual({ of: 'the image' });
  await instance.ssh('sleep 0.1; touch /opt/venv/lib/python3*/site-packages');
  expect(await formats()).toEqual(list);
  expect(await instance.ssh(`/opt/venv/bin/python -c '${UNDELAYED}'`)).toBe('[call(True)]\n');
});

it('says why a server does not start from its second failure on, once, and goes on once it can', async () => {
  const broken = 'c.ServerApp.kernel_manager_class = "no.such.Class"';
  const instance = await start({
    before: `mkdir -p /root/.jupyter; echo '${broken}' >/root/.jupyter/jupyter_server_config.py`,
  });
  await eventually(async () => expect(await instance.notebookSaid()).toHaveLength(2));
  const [first, failed] = await instance.notebookSaid();
  expect(first).toBe('starting');
  expect(failed).toMatch(/^failed 1 .*no\.such/);
  await instance.ssh('rm /root/.jupyter/jupyter_server_config.py');
  await answers(instance);
  await eventually(async () => expect((await instance.notebookSaid()).slice(2)).toEqual(['ready']));
});

it('leaves a file whole that a full disk refuses to save, and saves it once there is space', async () => {
  const instance = await start({ tmpfs: { '/root/full': 'size=64k' } });
  await answers(instance);
  const put = async (content: string): Promise<boolean> => {
    const body = JSON.stringify({ type: 'file', format: 'text', content });
    return (await instance.http('api/contents/full/small.txt', { method: 'PUT', body })).ok;
  };
  const onDisk = (): Promise<string> => instance.ssh('cat /root/full/small.txt');
  const [small, large] = ['s'.repeat(3_000), 'l'.repeat(7_000)];
  expect(await put(small)).toBe(true);
  // Leaves one page of memory.
  await instance.ssh(
    'cd /root/full; head -c 4096 /dev/zero >page; cat /dev/zero >filling 2>/dev/null || true; rm page',
  );
  // A second try met what the first had left.
  for (const attempt of ['first', 'second']) {
    expect(await put(large), attempt).toBe(false);
    expect(await onDisk(), attempt).toBe(small);
  }
  await instance.ssh('rm /root/full/filling; chmod 600 /root/full/small.txt');
  expect(await put(large)).toBe(true);
  expect(await onDisk()).toBe(large);
  expect(await instance.ssh('stat -c %a /root/full/small.txt; ls -A /root/full')).toBe('600\nsmall.txt\n');
});

/** By file below /root/.jupyter: settings that would hide the notebook from the gateway. */
const foreign: readonly [file: string, line: string][] = [
  ['jupyter_server_config.py', 'c.ServerApp.ip = "127.0.0.1"; c.ServerApp.port = 9999'],
  ['jupyter_server_config.py', 'c.ServerApp.base_url = "/else/"'],
  ['jupyter_server_config.py', 'c.ServerApp.sock = "/tmp/jupyter.sock"'],
  ['jupyter_server_config.py', 'c.ServerApp.certfile = "/missing.pem"; c.ServerApp.keyfile = "/missing.key"'],
  ['jupyter_server_config.py', 'c.ServerApp.ssl_options = {"certfile": "/root/own.pem", "keyfile": "/root/own.pem"}'],
  ['jupyter_server_config.py', 'c.ServerApp.client_ca = "/missing.pem"'],
  ['jupyter_server_config.py', 'c.ServerApp.websocket_url = "ws://elsewhere.invalid"'],
  ['jupyter_server_config.py', 'c.ServerApp.preferred_dir = "/missing"'],
  ['jupyter_server_config.py', 'c.FileContentsManager.preferred_dir = "/srv"'],
  ['jupyter_server_config.py', 'c.AsyncLargeFileManager.preferred_dir = "missing"'],
  ['jupyter_server_config.py', 'c.AsyncLargeFileManager.root_dir = "/srv"'],
  ['jupyter_server_config.py', 'c.ServerApp.notebook_dir = "/srv"; c.ServerApp.root_dir = "/srv"'],
  ['jupyter_server_config.py', 'c.AsyncMappingKernelManager.buffer_offline_messages = True'],
  ['jupyter_lab_config.py', 'c.ServerApp.ssl_options = {"certfile": "/root/own.pem", "keyfile": "/root/own.pem"}'],
  ['jupyter_lab_config.py', 'c.ServerApp.port = 9998'],
  ['jupyter_config.py', 'c.ServerApp.certfile = "/root/own.pem"'],
];
const certificate =
  'openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=own -keyout /root/own.pem -out /root/own.crt 2>/dev/null; cat /root/own.crt >>/root/own.pem';

async function servedWith(lines: readonly (readonly [string, string])[]): Promise<object> {
  const writes = lines.map(([file, line]) => `echo '${line}' >>/root/.jupyter/${file}`);
  const own = "echo 'c.ServerApp.quit_button = False' >>/root/.jupyter/jupyter_server_config.py";
  const instance = await start({ before: [certificate, 'mkdir -p /root/.jupyter', ...writes, own].join('; ') });
  await answers(instance);
  await eventually(async () => expect((await instance.notebookSaid()).at(-1)).toBe('ready'));
  expect(await instance.cell('import os; print(os.getcwd())')).toBe('/root\n');
  const page = await (await instance.http('lab')).text();
  return {
    root: (await instance.http('api/contents/own.crt')).status,
    leavesOthers: page.includes('"quitButton": false'),
    elsewhere: page.includes('elsewhere.invalid'),
    said: await instance.notebookSaid(),
  };
}

const served = { root: 200, leavesOthers: true, elsewhere: false, said: ['starting', 'ready'] };

it('keeps the settings that the gateway needs, and leaves others to the image', async () => {
  expect(await servedWith(foreign)).toEqual(served);
});

longTest.each(foreign)('keeps the settings that the gateway needs: %s, %s', async (file, line) => {
  expect(await servedWith([[file, line]])).toEqual(served);
});
