/** Packages of PyPI in the default image, as people install them. Needs a container engine. */
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { env } from 'node:process';
import { describe, expect, it } from 'vitest';
import { eventually, start } from '../../docker/engines/start-script-fixture.ts';

/** Packages, and what is imported of each where the name differs. */
const PACKAGES = `
  requests, pyyaml yaml, packaging, setuptools, wheel, tqdm, rich, typer, pydantic, httpx, scipy, scikit-learn sklearn,
  seaborn, plotly, polars, pyarrow, duckdb, sqlalchemy, statsmodels, fastapi, uvicorn, flask, django, aiohttp,
  beautifulsoup4 bs4, lxml, bokeh, altair, dash, streamlit, sympy, networkx, nltk, tokenizers, huggingface_hub, openai,
  opencv-python-headless cv2, pytest, notebook, jupyterlab-git jupyterlab_git, jupyter-lsp jupyter_lsp, ruff
`
  .split(',')
  .map((each) => each.trim());

/** An instance with the package index and the certificates of this machine. */
async function startWithIndex() {
  const names = ['PIP_INDEX_URL', 'PIP_EXTRA_INDEX_URL', 'UV_DEFAULT_INDEX', 'http_proxy', 'https_proxy', 'no_proxy'];
  const settings = names.flatMap((name) => (env[name] === undefined ? [] : [`${name}=${env[name]}`]));
  const bundle = env['SSL_CERT_FILE'] ?? env['PIP_CERT'] ?? '/etc/ssl/certs/ca-certificates.crt';
  const inside = '/etc/berth/certificates.pem';
  const instance = await start({
    env: [...settings, `SSL_CERT_FILE=${inside}`, `PIP_CERT=${inside}`],
    memoryBytes: 3 * 2 ** 30,
  });
  await copyFile(bundle, join(instance.control, 'certificates.pem'));
  await eventually(() => instance.ssh('true'));
  return instance;
}
const version = (name: string): string => `python3 -c "import ${name}; print(${name}.__version__)"`;

describe('the default image', () => {
  it.each([
    ['pip install', 'pip install -q'],
    ['pip install --user', 'pip install -q --user'],
    ['python -m pip install', 'python3 -m pip install -q'],
    ['uv pip install', 'uv pip install -q'],
  ])('replaces a package of its own and adds others by %s', async (_, install) => {
    const instance = await startWithIndex();
    await instance.ssh(`${install} "numpy<2.3" cowsay`);
    expect(await instance.ssh(version('numpy'))).toMatch(/^2\.[012]\./);
    const imported = 'import cowsay, numpy, sys; print(sys.prefix in cowsay.__file__, numpy.__version__)';
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    expect(await instance.cell(imported)).toMatch(/^True 2\.[012]\./);
    expect(await instance.login('cowsay -t hello')).toContain('hello');
    // Debian's own Python, which apt needs, has none of it.
    await expect(instance.ssh('/usr/bin/python3 -c "import numpy"')).rejects.toThrow(/No module named/);
    expect(await instance.ssh('apt-get check 2>&1; dpkg --audit')).not.toMatch(/unmet|broken|E:/i);
  });

  it('has the page of the JupyterLab that pip installed, and none of the scripts of another', async () => {
    const instance = await startWithIndex();
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    const pageOf = async (): Promise<string> => (await instance.http('lab', { headers: shared })).text();
    const build = /<!-- berth-bundle (\w+) -->/.exec(await (await instance.http('lab')).text())?.[1] ?? '';
    const shared = { 'x-berth-lab': build };
    expect(await pageOf()).toContain(`/.berth/lab/${build}`);
    const installed = async (wanted: string): Promise<void> => {
      await instance.ssh(`pip install -q ${wanted}`);
      await instance.container.restart();
      await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    };
    await installed('"jupyterlab<4.6"');
    expect(await pageOf()).not.toContain('/.berth/lab/');
    expect(/"appVersion": "([\d.]+)"/.exec(await pageOf())?.[1]).toMatch(/^4\.5\./);
    expect(await instance.ssh('jupyter-lab --version')).toMatch(/^4\.5\.\d+\n$/);
    await installed('-U jupyterlab');
    expect(/"appVersion": "([\d.]+)"/.exec(await pageOf())?.[1]).toMatch(/^4\.(?:[6-9]|\d\d)\./);
    expect(await instance.cell('print(6 * 7)')).toBe('42\n');
  });

  it('finds a tool of uv by its name, by ssh and in a cell', async () => {
    const instance = await startWithIndex();
    await instance.ssh('uv tool install -q cowsay');
    expect(await instance.login('cowsay -t hello')).toContain('hello');
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    expect(await instance.cell('import shutil; print(shutil.which("cowsay"))')).toBe('/root/.local/bin/cowsay\n');
  });

  it('takes gradio, a tool that replaces many, and upgrades of all that the image brought', async () => {
    const instance = await startWithIndex();
    await instance.ssh('pip install -q gradio && python3 -c "import gradio"');
    await instance.ssh('pip install -q -U $(pip list --format=freeze | cut -d= -f1)');
    await instance.container.restart();
    await eventually(async () => expect((await instance.http('api/status')).status).toBe(200));
    expect(await instance.cell('import gradio, pandas, matplotlib; print(6 * 7)')).toBe('42\n');
    expect((await instance.said()).filter((line) => line.includes('does not start'))).toEqual([]);
  }, 3_600_000);

  it('installs what people use, one after the other, and imports it', async () => {
    expect(PACKAGES.length).toBeGreaterThanOrEqual(40);
    const instance = await startWithIndex();
    const failed: string[] = [];
    for (const each of PACKAGES) {
      const [name = '', module = name] = each.split(' ');
      const command = `pip install -q ${name} >/tmp/out 2>&1 && python3 -c "import ${module}" >>/tmp/out 2>&1`;
      const said = await instance.ssh(`{ ${command}; } || tail -n 3 /tmp/out`);
      if (said !== '') failed.push(`${name}: ${said}`);
    }
    expect(failed).toEqual([]);
  }, 3_600_000);
});
