/**
 * A JupyterLab extension in the form that the page loads: no build is needed. When a notebook
 * connects to its kernel, the extension inserts the output that arrived without a page into the
 * cells, and follows the output of cells that still run (kept_output.py). It also shows the
 * launcher sooner, and what the server has to say.
 */
(() => {
  const NAME = 'berth-kept-output';
  const CUT = '\n[what came here, with no page there, was more than is kept]\n';
  /** Messages that change what a cell shows, as in kept_output.py. */
  const SHOWN = new Set(
    'stream error display_data execute_result clear_output update_display_data execute_input'.split(' '),
  );
  let shared = {};

  /** A module of JupyterLab's own: tokens and signals must be the very same. */
  const moduleOf = async (name) => (await Object.values(shared[name])[0].get())();

  const plugin = (INotebookTracker, ServerConnection) => ({
    id: `${NAME}:plugin`,
    autoStart: true,
    requires: [INotebookTracker],
    activate(app, tracker) {
      showLauncher(app);
      showNotice(app);
      const settings = app.serviceManager.serverSettings;
      tracker.widgetAdded.connect((_, panel) => {
        const follow = (kernel) => {
          if (kernel) takeUp(panel, kernel);
        };
        panel.sessionContext.kernelChanged.connect((_, { newValue }) => follow(newValue));
        follow(panel.sessionContext.session?.kernel);
      });

      function takeUp(panel, kernel) {
        const taken = new Map();
        const heard = new Set();
        const last = new Map();
        /** What comes while we ask may also be in the answer. */
        let early = [];
        kernel.iopubMessage.connect((_, message) => (early === null ? hear(message) : early.push(message)));
        const address = `${settings.baseUrl}berth/kept/${kernel.id}?session=${encodeURIComponent(kernel.clientId)}`;
        const ask = (method) =>
          ServerConnection.makeRequest(
            panel.context.model.collaborative ? `${address}&shared=1` : address,
            { method },
            settings,
          );

        function hear(message) {
          const { header, parent_header: parent } = message;
          if (SHOWN.has(header.msg_type)) last.set(parent.msg_id, header.msg_id);
          const run = taken.get(parent.msg_id);
          if (run === undefined || heard.has(header.msg_id)) return;
          heard.add(header.msg_id);
          show(run, message);
        }

        /** The connection was lost and is back: nothing of the run came meanwhile. */
        function isComplete({ id, cell: cellId, done, heard: known, before }) {
          const cell = cellOf(cellId);
          const came = new Set(early.map(({ header }) => header.msg_id));
          const isShown = cell?.outputArea.future?.msg.header.msg_id === id;
          return isShown && !done && before === (last.get(id) ?? null) && known.every((message) => came.has(message));
        }

        const cellOf = (id) => panel.content.widgets.find(({ model }) => model.type === 'code' && model.id === id);

        async function askForKept() {
          early ??= [];
          await panel.context.ready;
          const answer = await ask('GET').catch(warn);
          const { runs } = answer?.ok ? await answer.json() : { runs: [] };
          for (const answered of runs) {
            const { id, cell: cellId, done, messages, heard: known } = answered;
            const cell = cellOf(cellId);
            if (cell === undefined || isComplete(answered)) continue;
            const future = { msg: { header: { msg_id: id } }, done: Promise.resolve(), dispose() {} };
            const run = { cell, future, count: null };
            taken.set(id, run);
            // Removes the saved output, as a run in this page does: all output is sent again.
            cell.model.trusted = true;
            cell.model.executionCount = null;
            cell.outputArea.future = run.future;
            cell.setPrompt('*');
            for (const message of messages)
              if (message.cut) cell.outputArea.model.add({ output_type: 'stream', name: 'stderr', text: CUT });
              else show(run, message);
            for (const message of known) heard.add(message);
            if (done) finish(run);
          }
          const waited = early;
          early = null;
          for (const message of waited) hear(message);
          if (runs.length > 0) whenSaved(panel.context, () => ask('DELETE').catch(() => {}));
        }

        let asked = Promise.resolve();
        const askInTurn = () => {
          if (kernel.connectionStatus === 'connected') asked = asked.then(askForKept).catch(warn);
        };
        kernel.connectionStatusChanged.connect(askInTurn);
        askInTurn();
      }
    },
  });

  const warn = (error) => console.warn('what was printed could not be taken up', error);

  function show(run, message) {
    // Run anew, or deleted: its output is not this run's any more.
    if (run.cell.isDisposed || run.cell.outputArea.future !== run.future) return;
    switch (message.header.msg_type) {
      case 'execute_input':
        run.count = message.content.execution_count;
        return;
      case 'status':
        if (message.content.execution_state === 'idle') finish(run);
        return;
      default:
        run.future.onIOPub(message);
    }
  }

  /** Pages of a shared document save nothing: its server has what they show. */
  function whenSaved({ model, saveState }, then) {
    if (model.collaborative) return then();
    let hasBegun = false;
    const heard = (_, state) => {
      hasBegun ||= state === 'started';
      if (hasBegun && state === 'completed' && saveState.disconnect(heard)) then();
    };
    saveState.connect(heard);
  }

  function finish({ cell, count }) {
    cell.model.executionCount = count;
    cell.setPrompt(`${count ?? ''}`);
  }

  /** JupyterLab shows the launcher half a second later, once it has saved the workspace. */
  function showLauncher({ commands, restored, shell }) {
    const show = () => {
      // Notebook 7 has neither.
      const isFree = shell.isEmpty?.('main') === true && !window.location.pathname.includes('/tree/');
      if (isFree && commands.hasCommand('launcher:create')) void commands.execute('launcher:create');
    };
    void restored.then(show);
  }

  /** What Jupyter's server has to say to the user (berth_lab.py). */
  function showNotice({ commands, restored }) {
    const config = JSON.parse(document.getElementById('jupyter-config-data')?.textContent ?? '{}');
    if (!config.berthNotice) return;
    const notice = { message: config.berthNotice, type: 'warning', options: { autoClose: false } };
    void restored.then(() => commands.execute('apputils:notify', notice));
  }

  (window._JUPYTERLAB ??= {})[NAME] = {
    init(scope) {
      shared = scope;
    },
    async get() {
      const [{ INotebookTracker }, { ServerConnection }] = [
        await moduleOf('@jupyterlab/notebook'),
        await moduleOf('@jupyterlab/services'),
      ];
      return () => ({ __esModule: true, default: plugin(INotebookTracker, ServerConnection) });
    },
  };
})();
