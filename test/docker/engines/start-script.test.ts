/**
 * `images/start.sh` in real containers of the default image, which is built when absent (half a
 * minute). Needs a container engine at the default socket, and the OpenSSH client.
 */
import { randomUUID } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Environment } from '../../../src/domain/compute/environment.ts';
import { runCell } from '../../fixtures/jupyter.ts';
import { longDescribe, longTest } from '../../fixtures/long-test.ts';
import { docker, eventually, image, images, lab, run, start } from './start-script-fixture.ts';

describe('ssh', () => {
  it('answers while the init script runs, with the same files', async () => {
    const instance = await start({
      initScript: 'echo here >/tmp/mark\r\nwhile [ ! -e /tmp/go ]; do sleep 0.1; done\r\nexit 7\r\n',
    });
    await eventually(async () => expect(await instance.ssh('cat /tmp/mark')).toBe('here\n'));
    expect(await instance.said()).toEqual(['berth: services ssh notebook', 'berth: init started']);
    await instance.ssh('touch /tmp/go');
    await eventually(async () => expect((await instance.said()).at(-1)).toBe('berth: init exit 7'));
  });

  it('has the environment of the image, a login and HOME of root, and a working Ctrl-C', async () => {
    const instance = await start({ env: ['HOME=/home/jovyan', 'PATH=/opt/conda/bin:/usr/bin:/bin', "ODD=it's $5"] });
    const script = 'echo "$HOME|$PATH|$ODD"; grep SigIgn /proc/self/status';
    const expected =
      /^\/root\|\/opt\/conda\/bin:\/usr\/bin:\/bin:.*\/usr\/local\/sbin.*:\/root\/\.local\/bin\|it's \$5\nSigIgn:\t0+\n$/;
    await eventually(async () => expect(await instance.ssh(script)).toMatch(expected));
    expect(await instance.ssh(`bash -lc '${script}'`)).toMatch(expected);
  });

  it.each([
    [
      'a shell that lets nobody in',
      "sed -i 's|^\\(root:.*:\\).*|\\1/usr/sbin/nologin|' /etc/passwd",
      'the shell of root',
    ],
    ['a shell that is missing', "sed -i 's|^\\(root:.*:\\).*|\\1/bin/fish|' /etc/passwd", 'the shell of root'],
    ['an expired account', "sed -i 's|^root:.*|root:*:19000:0:99999:7::1:|' /etc/shadow", 'had expired'],
    ['a locked account', "sed -i 's|^root:[^:]*|root:!|' /etc/shadow", ''],
  ])('lets root of an image in that has %s, and says what it changed', async (_, before, text) => {
    const instance = await start({ before });
    await eventually(async () => expect(await instance.ssh('echo hello')).toBe('hello\n'));
    const changes = (await instance.said()).filter((line) => line.includes('root'));
    expect(changes.map((line) => line.includes(text))).toEqual(text === '' ? [] : [true]);
  });

  longTest('has prompts with the name of the instance, and with a new name from the next login on', async () => {
    const instance = await start({});
    await eventually(() => instance.ssh('true'));
    const prompts = () => instance.ssh('for shell in bash sh; do echo exit | $shell -l -i 2>&1; done; hostname');
    const hostName = await instance.ssh('hostname');
    expect(await prompts()).toContain('root@first:');
    expect(await instance.ssh("printf 'bash -i\\nexit\\n' | bash -l -i 2>&1")).not.toContain(hostName.trim());
    await writeFile(join(instance.control, 'renamed'), 'second\n');
    await rename(join(instance.control, 'renamed'), join(instance.control, 'name'));
    const renamed = await prompts();
    expect(renamed.match(/root@second:/g)).toHaveLength(2);
    expect(renamed.endsWith(hostName)).toBe(true);
  });

  longTest('shows the notice of a stop as soon as the file is replaced, also after a restart', async () => {
    const instance = await start({});
    const notice = () => instance.ssh('cat /run/berth/notice.json');
    await eventually(async () => expect(await notice()).toBe('{}\n'));
    await writeFile(join(instance.control, 'next'), '{"kind":"SpotReclaimed"}\n');
    await rename(join(instance.control, 'next'), join(instance.control, 'notice.json'));
    expect(await notice()).toBe('{"kind":"SpotReclaimed"}\n');
    await instance.container.restart();
    await eventually(async () => expect(await notice()).toBe('{"kind":"SpotReclaimed"}\n'));
  });

  it('accepts a key as soon as the file is replaced, and keeps its host key over a restart', async () => {
    const instance = await start({});
    await eventually(() => instance.ssh('true'));
    const hostKey = await instance.ssh('cat /var/lib/berth/instance/*/ssh_host_ed25519_key.pub');
    const other = join(instance.control, 'other');
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', other]);
    await rename(`${other}.pub`, join(instance.control, 'authorized_keys'));
    expect(await instance.ssh('echo in', other)).toBe('in\n');
    await expect(instance.ssh('true')).rejects.toThrow(/Permission denied/);
    await instance.container.restart();
    await eventually(async () =>
      expect(await instance.ssh('cat /var/lib/berth/instance/*/ssh_host_ed25519_key.pub', other)).toBe(hostKey),
    );
  });

  longTest('uses the given host key, unless it has one already', async () => {
    const [given, other] = [join(lab, `given-${randomUUID()}`), join(lab, `other-${randomUUID()}`)];
    for (const file of [given, other]) await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file]);
    const instance = await start({ hostKey: await readFile(given, 'utf8') });
    const publicKey = (text: string): string => text.split(' ').slice(0, 2).join(' ').trim();
    const shown = async (): Promise<string> => {
      const { stdout } = await run('ssh-keyscan', ['-t', 'ed25519', await instance.address()]);
      return stdout.trim().slice(stdout.indexOf(' ') + 1);
    };
    const expected = publicKey(await readFile(`${given}.pub`, 'utf8'));
    await eventually(async () => expect(await shown()).toBe(expected));
    await writeFile(join(instance.control, 'ssh-host-key'), await readFile(other, 'utf8'));
    await instance.container.restart();
    await eventually(async () => expect(await shown()).toBe(expected));
    expect(await instance.ssh('stat -c %a /var/lib/berth/instance/*/ssh_host_ed25519_key')).toBe('600\n');
  });

  longTest('generates a host key when the given one is invalid', async () => {
    const instance = await start({ hostKey: 'this is no key\n' });
    await eventually(async () => expect(await instance.ssh('echo in')).toBe('in\n'));
  });

  longTest('is restarted when sshd dies', async () => {
    const instance = await start({});
    await eventually(() => instance.ssh('true'));
    await instance.ssh('pkill -f "sshd -D"').catch(() => {});
    await eventually(async () => expect(await instance.ssh('echo again')).toBe('again\n'));
  });
});

describe('the environment', () => {
  const odd = `"quoted" 'single' back\\slash \\" $HOME \`id\` ü #5`;
  const variables: Environment = new Map([
    ['ODD', odd],
    ['KEY', '-----BEGIN\nA=b\n-----END\n'],
    ['EMPTY', ''],
    ['run', 'like a variable of the start script'],
    ['LANG', 'C'],
  ]);
  const program = 'import json, os; print(json.dumps({name: os.environ.get(name) for name in NAMES}))';
  const show = program.replace('NAMES', JSON.stringify([...variables.keys()]));
  const command = `python3 -c '${show}'`;
  const expected = Object.fromEntries(variables);

  it('is the same in the init script, in commands and logins by ssh, and in kernels', async () => {
    const instance = await start({ variables, initScript: `${command} >/root/seen`, env: ['BASH_ENV=/nowhere'] });
    const seen = async (text: Promise<string>): Promise<unknown> => JSON.parse(await text);
    await eventually(async () => expect(await seen(instance.ssh(command))).toEqual(expected));
    expect(await seen(instance.login(command))).toEqual(expected);
    await eventually(async () => expect(await seen(instance.ssh('cat seen'))).toEqual(expected));
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    expect(await seen(instance.cell(show))).toEqual(expected);
    // A command reads ~/.bashrc, as without Berth; a nested shell does not read the variables.
    await instance.ssh('echo RC=read >/root/.bashrc');
    expect(await instance.ssh(`echo $RC $SHLVL; ODD=mine bash -c 'echo "$ODD$BASH_ENV"'`)).toBe(
      'read 1\nmine/nowhere\n',
    );
  });

  it('changes for new sessions when the file is replaced', async () => {
    const instance = await start({ variables: new Map(['OLD', 'BOTH'].map((name) => [name, 'x'])) });
    await eventually(async () => expect(await instance.ssh('echo $OLD$BOTH')).toBe('xx\n'));
    const text = await readFile(join(instance.control, 'env'), 'utf8');
    const changed = text.replace(/^export OLD.*\n/m, '').replace("BOTH='x'", "BOTH='y\r\nz'");
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    // As Berth replaces it.
    await writeFile(join(instance.control, '.env'), changed);
    await rename(join(instance.control, '.env'), join(instance.control, 'env'));
    expect(await instance.ssh('echo "$OLD$BOTH"')).toBe('y\r\nz\n');
    expect(await instance.login('echo "$OLD$BOTH"')).toBe('y\r\nz\n');
    expect(await instance.cell('import os; print(os.environ.get("OLD"), repr(os.environ["BOTH"]))')).toBe(
      "None 'y\\r\\nz'\n",
    );
  });

  longTest('reaches commands by ssh of other shells, without values of several lines', async () => {
    const before = "sed -i 's|^\\(root:.*:\\).*|\\1/bin/sh|' /etc/passwd";
    const instance = await start({ variables, before });
    await eventually(async () => expect(JSON.parse(await instance.ssh(command))).toEqual({ ...expected, KEY: null }));
    expect(JSON.parse(await instance.login(command))).toEqual(expected);
  });

  it('leaves no value on the root disk', async () => {
    const secret = `secret-${randomUUID()}`;
    const before = "sed -i 's|^\\(root:.*:\\).*|\\1/bin/sh|' /etc/passwd";
    const instance = await start({ variables: new Map([['SECRET', secret]]), before, initScript: 'true' });
    await eventually(async () => expect(await instance.ssh('echo $SECRET')).toBe(`${secret}\n`));
    expect(await instance.login('echo $SECRET')).toBe(`${secret}\n`);
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    await instance.cell('print(1)');
    await instance.ssh('echo $SECRET >/root/planted');
    const values = `-e ${secret} -e ${instance.token}`;
    const changed = 'find / -xdev -type f -mmin -60 -exec';
    expect(await instance.ssh(`${changed} grep -lF ${values} {} + || true`)).toBe('/root/planted\n');
  });
});

describe('a full root disk', () => {
  it('leaves ssh, the notebook and its kernels working', async () => {
    const full = ['/run', '/root', '/var/log'];
    const instance = await start({
      tmpfs: Object.fromEntries(full.map((folder) => [folder, 'size=16k'])),
      before: `for each in ${full.join(' ')}; do cat /dev/zero >$each/full; done 2>/dev/null`,
    });
    await eventually(async () => expect(await instance.ssh('echo in')).toBe('in\n'));
    await expect(instance.ssh('head -c 100000 /dev/zero >/root/more')).rejects.toThrow(/No space left/);
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    expect((await instance.http('api/kernels', { method: 'POST', body: '{}' })).status).toBe(201);
  });
});

describe('the init script', () => {
  it('runs by its first line, once, and reports its exit code at each start', async () => {
    const instance = await start({
      initScript: '#!/usr/bin/env python3\nopen("/root/count", "a").write("x")\nraise SystemExit(3)\n',
    });
    await eventually(async () => expect((await instance.said()).at(-1)).toBe('berth: init exit 3'));
    await instance.container.restart();
    await eventually(async () =>
      expect((await instance.said()).slice(3)).toEqual(['berth: services ssh notebook', 'berth: init exit 3']),
    );
    await eventually(async () => expect(await instance.ssh('cat count')).toBe('x'));
  });

  longTest('may write without end: the log stops at 10 MiB, and the script goes on', async () => {
    const instance = await start({ initScript: 'head -c 30000000 /dev/zero; echo error >&2; exit 5' });
    await eventually(async () => expect((await instance.said()).at(-1)).toMatch(/^berth: init exit 5 /));
    await eventually(async () =>
      expect(await instance.ssh('tail -c 30 /var/log/berth/init.log')).toMatch(/is dropped\]\n$/),
    );
    const size = Number(await instance.ssh('stat -c %s /var/log/berth/init.log'));
    expect(size).toBeGreaterThan(10_000_000);
    expect(size).toBeLessThan(11_000_000);
  });

  it('is not run again after an interruption', async () => {
    const instance = await start({ initScript: 'echo x >>/root/count; sleep 600' });
    await eventually(async () => expect(await instance.ssh('cat count')).toBe('x\n'));
    await instance.container.restart();
    await eventually(async () => expect((await instance.said()).at(-1)).toBe('berth: init lost'));
    await eventually(async () => expect(await instance.ssh('cat count')).toBe('x\n'));
  });
});

describe('the notebook', () => {
  it('requires the token, runs a kernel over REST and WebSocket, and never shows the token', async () => {
    const instance = await start({});
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    const page = await instance.http('lab');
    expect(page.status).toBe(200);
    expect(await page.text()).not.toContain(instance.token);
    expect((await instance.http('lab', { redirect: 'manual' }, 'none')).status).toBe(302);
    expect((await instance.http(`api/contents?token=${instance.token}`, {}, 'none')).status).toBe(403);
    expect((await instance.http('api/contents', {}, 'token wrong')).status).toBe(403);
    const printed = await instance.cell('import os; print(6 * 7, os.getcwd(), dict(os.environ))');
    expect(printed).toMatch(/^42 \/root /);
    expect(printed).not.toContain(instance.token);
    expect(await instance.ssh('cat /proc/[0-9]*/cmdline')).not.toContain(instance.token);
    expect((await instance.http('api/terminals', { method: 'POST' })).status).toBe(200);
  });

  it("is the image's own, says so, and runs the instance's Python, where an upgrade does not start", async () => {
    const broken = 'raise SystemExit("this version does not start")';
    const instance = await start({
      before: `echo '${broken}' >/opt/venv/lib/python3.13/site-packages/jupyterlab/__init__.py`,
    });
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    expect(await instance.said()).toContainEqual(
      "berth: the installed Jupyter does not start, the image's runs: this version does not start",
    );
    const page = await (await instance.http('lab')).text();
    expect(page).toMatch(/"berthNotice": "The JupyterLab that was installed here does not start/);
    expect(page).toContain('<!-- berth-bundle ');
    const where = 'import sys; print(sys.prefix)';
    expect(await instance.cell(where)).toBe('/opt/venv\n');
    expect(await instance.cell(where, 'image')).toBe('/opt/jupyter\n');
  });

  longTest('gives the first kernel a prepared process, unless packages were installed since its start', async () => {
    const instance = await start({ env: ['GREETING=hello'] });
    const headers = { authorization: `token ${instance.token}` };
    const inKernel = async (code: string): Promise<string> =>
      runCell(`http://${await instance.address()}:8888${instance.baseUrl}`, headers, code);
    const how =
      'import os, sys; print(open("/proc/self/cmdline").read().split("\\0")[3], os.getcwd(), os.environ["GREETING"], sys.argv[0])';
    const site = '/opt/venv/lib/python3.13/site-packages';
    const launcher = `${site}/ipykernel_launcher.py`;
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    expect(await inKernel(how)).toBe(`berth_lab /root hello ${launcher}\n`);
    expect(await inKernel(how)).toBe(`ipykernel_launcher /root hello ${launcher}\n`);
    await instance.container.restart();
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    await instance.ssh(`mkdir /opt/mine; touch /opt/mine/mine.py; cd ${site}; echo /opt/mine >mine.pth`);
    expect(await inKernel(`import mine; ${how}`)).toMatch(/^ipykernel_launcher /);
  });

  longTest('accepts the Berth token although the image sets a password and a token', async () => {
    const own =
      '{"ServerApp":{"token":"","password":"argon2:x"},"IdentityProvider":{"token":"own"},"PasswordIdentityProvider":{"hashed_password":"argon2:x"}}';
    const instance = await start({
      before: `mkdir -p /root/.jupyter; echo '${own}' >/root/.jupyter/jupyter_server_config.json`,
    });
    await eventually(async () => expect((await instance.http('api/contents')).status).toBe(200));
  });
});

longDescribe('the default image', () => {
  it('has what people work with, in at most 900 MB, and apt finds it consistent', async () => {
    expect((await docker.getImage(image).inspect()).Size).toBeLessThanOrEqual(900_000_000);
    const instance = await start({});
    await eventually(() => instance.ssh('true'));
    const plot = [
      'import ipywidgets, matplotlib, numpy, pandas',
      'matplotlib.use("agg")',
      'from matplotlib import pyplot',
      'pandas.DataFrame({"a": numpy.arange(3)}).plot(title="ü")',
      'pyplot.savefig("/tmp/plot.png"), pyplot.savefig("/tmp/plot.pdf")',
    ].join('\n');
    await instance.ssh(`python3 - <<'END'\n${plot}\nEND`);
    expect(await instance.ssh('head -c 4 /tmp/plot.pdf')).toBe('%PDF');
    await instance.ssh(`echo 'int main(void) { return 0; }' >/tmp/a.c && gcc -O2 -o /tmp/a /tmp/a.c && /tmp/a`);
    await instance.ssh('python3 -m venv /tmp/own && /tmp/own/bin/pip --version && git --version && wget --version');
    await instance.ssh('vim -es -c "normal ihere" -c "wq" /tmp/text && grep here /tmp/text');
    expect(await instance.ssh('apt-get check 2>&1; dpkg --audit')).not.toMatch(/unmet|broken|E:/i);
  });
});

describe('SIGTERM', () => {
  it('ends sessions, kernels and background processes before the grace is over, with 0', async () => {
    const instance = await start({});
    await eventually(() => instance.ssh('true'));
    await instance.ssh('setsid sleep 600 >/dev/null 2>&1 &');
    // this one ignores SIGTERM and has to be killed
    await instance.ssh(`setsid sh -c 'trap "" TERM; touch /tmp/deaf; while :; do sleep 1; done' >/dev/null 2>&1 &`);
    await eventually(() => instance.ssh('cat /tmp/deaf'));
    // The engine's SIGKILL after the grace would exit with 137.
    await instance.container.stop({ t: 60 });
    expect((await instance.container.inspect()).State.ExitCode).toBe(0);
  });
});

it('runs the init script in an image without ssh, notebook and bash, and stops', async () => {
  const before = 'rm -rf /usr/sbin/sshd /opt/venv /opt/jupyter /usr/bin/bash';
  const instance = await start({ before, initScript: 'echo $0; exit 4' });
  await eventually(async () =>
    expect(await instance.said()).toEqual([
      'berth: services none',
      'berth: init started',
      expect.stringMatching(/^berth: init exit 4 .*\/init-script$/),
    ]),
  );
  await instance.container.stop({ t: 20 });
  expect((await instance.container.inspect()).State.ExitCode).toBe(0);
});

it('is plain POSIX shell of readable size', async () => {
  const script = await readFile(join(images, 'start.sh'), 'utf8');
  expect(script.split('\n').length).toBeLessThan(500);
  const functions = [...script.matchAll(/^(\w+)\(\) \{/gm)].map(([, name]) => name);
  expect(functions).toEqual([...new Set(functions)]);
  await run('dash', ['-n', join(images, 'start.sh')]);
});
