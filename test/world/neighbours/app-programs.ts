/** Apps as people write them, by framework: each greets by name, or shows what it is for. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

export interface AppProgram {
  /** Package of PyPI, with the version of the table in `docs/use.md`; absent: a program of npm. */
  requirement?: string;
  files: Record<string, string>;
  /** A program of the virtual environment, or a path, with its arguments. */
  command: (port: number) => readonly string[];
  /** Variables that tell the framework its prefix, as from `BERTH_PORT_PREFIX`. */
  environment?: (prefix: string) => Record<string, string>;
  /** Rejects unless the app does what it is for. `folder`: of its files. */
  use: (page: Page, folder: string) => Promise<void>;
}

const VITE = path.resolve('node_modules/.bin/vite');
const NAME = 'Ada';
const GREETING = `hello ${NAME}`;

async function greetedBy(page: Page, field: string): Promise<void> {
  await page.locator(field).first().fill(NAME);
  await page.keyboard.press('Tab');
  await page.getByRole('button', { name: 'Greet' }).click();
  await page.getByText(GREETING).first().waitFor();
}

const GRADIO = `
import sys
import gradio as gr
with gr.Blocks() as app:
    name, out = gr.Textbox(label="Name"), gr.Markdown()
    gr.Button("Greet").click(lambda text: f"hello {text}", name, out)
app.launch(server_name="127.0.0.1", server_port=int(sys.argv[1]))
`;
const STREAMLIT = `
import streamlit as st
name = st.text_input("Name")
if st.button("Greet"):
    st.write(f"hello {name}")
`;
const DASH = `
import sys
from dash import Dash, Input, Output, State, dcc, html
app = Dash(__name__)
app.layout = html.Div([dcc.Input(id="name"), html.Button("Greet", id="greet"), html.P(id="out")])
@app.callback(Output("out", "children"), Input("greet", "n_clicks"), State("name", "value"), prevent_initial_call=True)
def greet(_, name):
    return f"hello {name}"
app.run(host="127.0.0.1", port=int(sys.argv[1]))
`;
const MARIMO = `
import marimo
app = marimo.App()
@app.cell
def _():
    import marimo as m
    name, go = m.ui.text(label="Name"), m.ui.run_button(label="Greet")
    m.vstack([name, go])
    return go, m, name
@app.cell
def _(go, m, name):
    m.stop(not go.value)
    m.plain_text(f"hello {name.value}")
    return
`;
const SHINY = `
from shiny import App, reactive, render, ui
def server(input, output, session):
    @render.text
    @reactive.event(input.greet)
    def out():
        return f"hello {input.name()}"
form = [ui.input_text("name", "Name"), ui.input_action_button("greet", "Greet"), ui.output_text("out")]
app = App(ui.page_fluid(*form), server)
`;
const PANEL = `
import panel as pn
pn.extension()
name, go, out = pn.widgets.TextInput(name="Name"), pn.widgets.Button(name="Greet"), pn.pane.Markdown("")
def greet(_):
    out.object = f"hello {name.value}"
go.on_click(greet)
pn.Column(name, go, out).servable()
`;
const EVENTS = `
import sys, time
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard import main
writer = EventFileWriter("logs")
for step in range(5):
    value = summary_pb2.Summary.Value(tag="loss", simple_value=1 / (step + 1))
    writer.add_event(event_pb2.Event(step=step, wall_time=time.time(), summary=summary_pb2.Summary(value=[value])))
writer.close()
sys.argv = ["tensorboard", "--logdir=logs", "--host=127.0.0.1", *sys.argv[1:]]
main.run_main()
`;

export const appPrograms: Record<string, AppProgram> = {
  Gradio: {
    requirement: 'gradio==6.31.0',
    files: { 'app.py': GRADIO },
    command: (port) => ['python', 'app.py', String(port)],
    environment: (prefix) => ({ GRADIO_ROOT_PATH: prefix }),
    use: (page) => greetedBy(page, 'textarea, input'),
  },
  Streamlit: {
    requirement: 'streamlit==1.67.0',
    files: { 'app.py': STREAMLIT },
    command: (port) => [
      'streamlit',
      'run',
      'app.py',
      '--server.address=127.0.0.1',
      `--server.port=${port}`,
      '--server.headless=true',
      '--browser.gatherUsageStats=false',
    ],
    use: (page) => greetedBy(page, 'input'),
  },
  Dash: {
    requirement: 'dash==4.4.1',
    files: { 'app.py': DASH },
    command: (port) => ['python', 'app.py', String(port)],
    environment: (prefix) => ({ DASH_REQUESTS_PATHNAME_PREFIX: `${prefix}/`, DASH_ROUTES_PATHNAME_PREFIX: '/' }),
    use: (page) => greetedBy(page, '#name'),
  },
  TensorBoard: {
    requirement: 'tensorboard==2.21.0',
    files: { 'app.py': EVENTS },
    command: (port) => ['python', 'app.py', `--port=${port}`],
    use: (page) => page.getByText('loss').first().waitFor(),
  },
  MLflow: {
    requirement: 'mlflow==3.17.2',
    files: {},
    command: (port) => [
      'mlflow',
      'server',
      '--host=127.0.0.1',
      `--port=${port}`,
      '--workers=1',
      '--allowed-hosts=*',
      '--backend-store-uri=sqlite:///mlflow.db',
    ],
    use: (page) => page.getByText('Default', { exact: true }).first().waitFor(),
  },
  marimo: {
    requirement: 'marimo==0.25.2',
    files: { 'app.py': MARIMO },
    command: (port) => ['marimo', 'run', 'app.py', '--headless', '--host=127.0.0.1', `--port=${port}`],
    use: (page) => greetedBy(page, 'input'),
  },
  Shiny: {
    requirement: 'shiny==1.8.0',
    files: { 'app.py': SHINY },
    command: (port) => ['shiny', 'run', 'app.py', '--host=127.0.0.1', `--port=${port}`],
    use: (page) => greetedBy(page, '#name'),
  },
  Panel: {
    requirement: 'panel==1.10.0',
    files: { 'app.py': PANEL },
    command: (port) => ['panel', 'serve', 'app.py', '--address=127.0.0.1', `--port=${port}`],
    use: (page) => greetedBy(page, 'input'),
  },
  Ray: {
    requirement: 'ray[default]==2.60.0',
    files: {},
    command: (port) => [
      'ray',
      'start',
      '--head',
      '--block',
      '--dashboard-host=127.0.0.1',
      `--dashboard-port=${port}`,
      '--num-cpus=1',
      '--object-store-memory=80000000',
    ],
    use: (page) => page.getByText('Cluster', { exact: true }).first().waitFor(),
  },
  Vite: {
    files: {
      'index.html': '<p></p><script type="module" src="/main.js"></script>',
      'main.js':
        "import { text } from './text.js';\nconst show = (now) => (document.querySelector('p').textContent = now);\nshow(text);\nimport.meta.hot.accept('./text.js', (next) => show(next.text));",
      'text.js': "export const text = 'before';",
      'vite.config.js': "export default { server: { allowedHosts: ['.gpu.localtest'] } };",
    },
    command: (port) => [VITE, '--host=127.0.0.1', `--port=${port}`, '--strictPort'],
    use: async (page, folder) => {
      await page.getByText('before').or(page.getByText('after')).waitFor();
      await page.evaluate('window.kept = true');
      const next = (await page.getByText('before').isVisible()) ? 'after' : 'before';
      // The page of the WebSocket: a change before it is open reaches nobody.
      await expect
        .poll(async () => {
          await writeFile(path.join(folder, 'text.js'), `export const text = '${next}'; // ${Math.random()}`);
          return page.locator('p').textContent();
        })
        .toBe(next);
      expect(await page.evaluate('window.kept')).toBe(true);
    },
  },
};
