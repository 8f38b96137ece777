/**
 * A bar at the top of JupyterLab 4 and Notebook 7, in the form that the page loads: name, costs,
 * time to the automatic stop, GPUs, Stop, and the way to the console. The gateway answers below the
 * page's base URL, to the owner alone; without an answer there is no bar.
 */
(() => {
  const NAME = 'berth-bar';
  const EVERY_MS = 30_000;
  const GIB = 1024 ** 3;
  let shared = {};

  const english = {
    soFar: (cost, price) => `${cost} so far, ${price} an hour`,
    stopsIn: (time) => `stops in ${time}`,
    time: (hours, minutes) => (hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min`),
    gpus: (count) => (count > 1 ? `${count} GPUs` : 'GPU'),
    stop: 'Stop',
    console: 'Console',
    ask: (name) => `Stop ${name}?`,
    body: 'Open notebooks are saved. Kernels and programs end; disks and volumes stay.',
    refused: 'The instance was not stopped',
  };
  const chinese = {
    soFar: (cost, price) => `至今 ${cost}，每小时 ${price}`,
    stopsIn: (time) => `${time}后停止`,
    time: (hours, minutes) => (hours > 0 ? `${hours} 小时 ${minutes} 分钟` : `${minutes} 分钟`),
    gpus: (count) => (count > 1 ? `${count} 个 GPU` : 'GPU'),
    stop: '停止',
    console: '控制台',
    ask: (name) => `停止 ${name}？`,
    body: '打开的笔记本会先保存。内核和程序将结束；磁盘和存储卷保留。',
    refused: '实例未停止',
  };
  const isChinese = navigator.language.toLowerCase().startsWith('zh');
  const texts = isChinese ? chinese : english;
  const dollars = (value, digits) =>
    new Intl.NumberFormat(isChinese ? 'zh-CN' : 'en-US', {
      style: 'currency',
      currency: 'USD',
      maximumFractionDigits: digits,
    }).format(value);

  function factsOf({ name, pricePerHour, costSoFar, stopsInMs, gpus }) {
    const facts = [name];
    if (pricePerHour + costSoFar > 0) facts.push(texts.soFar(dollars(costSoFar, 2), dollars(pricePerHour, 4)));
    if (stopsInMs !== null) {
      const minutes = Math.ceil(stopsInMs / 60_000);
      facts.push(texts.stopsIn(texts.time(Math.floor(minutes / 60), minutes % 60)));
    }
    if (gpus !== null && gpus.count > 0) {
      const gib = (bytes) => (bytes / GIB).toFixed(1);
      const memory = gpus.memoryUsedBytes === null ? '' : ` ${gib(gpus.memoryUsedBytes)}`;
      const total = gpus.memoryTotalBytes === null || memory === '' ? '' : ` / ${gib(gpus.memoryTotalBytes)} GiB`;
      facts.push(
        `${texts.gpus(gpus.count)}${memory}${total}${gpus.busyPercent === null ? '' : ` ${gpus.busyPercent} %`}`,
      );
    }
    return facts;
  }

  /** A module of the page's own. */
  const moduleOf = async (name) => (await Object.values(shared[name])[0].get())();

  async function showBar({ commands, shell }, { Widget }, { Dialog, showDialog }) {
    const { baseUrl } = JSON.parse(document.getElementById('jupyter-config-data').textContent);
    const ask = (verb, request = {}) =>
      fetch(`${baseUrl}.berth/${verb}`, {
        ...request,
        headers: { accept: 'application/json', 'content-type': 'application/json' },
      });
    const bar = new Widget();
    bar.id = NAME;
    bar.node.style.cssText =
      'display:flex;align-items:center;gap:12px;margin-left:auto;padding:0 8px;white-space:nowrap;overflow:hidden;' +
      'color:var(--jp-ui-font-color1);font-size:var(--jp-ui-font-size1)';
    const facts = document.createElement('span');
    facts.style.cssText = 'overflow:hidden;text-overflow:ellipsis';
    const stop = document.createElement('button');
    stop.textContent = texts.stop;
    const link = document.createElement('a');
    link.textContent = texts.console;
    bar.node.append(facts, stop, link);
    let known = null;

    async function refresh() {
      if (document.hidden) return;
      const answer = await ask('bar').catch(() => null);
      if (!answer?.ok) return;
      known = await answer.json();
      facts.textContent = factsOf(known).join(' · ');
      facts.title = facts.textContent;
      link.hidden = known.consoleUrl === null;
      link.href = known.consoleUrl ?? '';
      if (!bar.isAttached) shell.add(bar, 'top', { rank: 1_000 });
    }

    async function stopInstance() {
      const buttons = [Dialog.cancelButton(), Dialog.warnButton({ label: texts.stop })];
      const { button } = await showDialog({ title: texts.ask(known.name), body: texts.body, buttons });
      if (!button.accept) return;
      const save = ['docmanager:save-all', 'docmanager:save'].find((id) => commands.hasCommand(id));
      // JupyterLab says why a notebook was not saved; then nothing is stopped.
      if (save !== undefined && commands.isEnabled(save)) await commands.execute(save);
      const answer = await ask('stop', { method: 'POST', body: '{}' });
      if (answer.ok && known.consoleUrl !== null) return window.location.assign(known.consoleUrl);
      stop.disabled = answer.ok;
      if (answer.ok) return;
      const { message } = await answer.json();
      await showDialog({ title: texts.refused, body: message, buttons: [Dialog.okButton()] });
    }

    stop.addEventListener('click', () => void stopInstance());
    document.addEventListener('visibilitychange', () => void refresh());
    window.setInterval(() => void refresh(), EVERY_MS);
    await refresh();
  }

  (window._JUPYTERLAB ??= {})[NAME] = {
    init(scope) {
      shared = scope;
    },
    async get() {
      const modules = [await moduleOf('@lumino/widgets'), await moduleOf('@jupyterlab/apputils')];
      const activate = (app) => void app.restored.then(() => showBar(app, ...modules));
      return () => ({ __esModule: true, default: { id: `${NAME}:plugin`, autoStart: true, activate } });
    },
  };
})();
