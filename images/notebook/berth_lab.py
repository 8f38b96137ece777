"""
Shortens the time from the page to the first output of a cell, as an extension of Jupyter's server.

- The first kernel: a process imports what a Python kernel needs soon after the server's start, and
  becomes the kernel when one is launched. It is used once, and ends after UNUSED_S without use. It is
  dropped where packages were installed after its start, or the kernel's environment is another than
  the server's.
- A new notebook asks for the list of export formats, whose imports delay its kernel by half a
  second: the image has the list (page.sh). It is made anew once packages or settings have changed.
- A page that connects to a kernel waits for a message of it. One that the kernel sends before it
  knows of the subscription is lost, and Jupyter asks again half a second later: it asks a moment
  later for the first time.
- JupyterLab asks for language servers; without jupyter-lsp the answer is that there are none, not a
  404 in the browser's console.
- Scripts and fonts of the page and of the image's extensions come from the gateway, at an address
  that all instances with the same build share, if the gateway says that it has this build: a browser
  has them from another instance, compiled. Requests that come another way, other builds, and a page
  with other extensions use the instance's own files.
"""
import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading

MODULE = "ipykernel_launcher"
# The page needs the server first.
PREPARE_S = 1
UNUSED_S = 600
SUBSCRIPTION_S = 0.05
EXPORT_FORMATS = "/usr/share/jupyter/berth-nbconvert.json"
PAGE = "/usr/share/jupyter/berth-page.html"
OF_IMAGE = (
    "The JupyterLab that was installed here does not start: this is the image's own. "
    "See /var/log/berth/notebook.log.1; pip install --force-reinstall jupyterlab may mend it, from the next restart on."
)


def _packages():
    """Changes when a package is installed or removed."""
    return [os.stat(path).st_mtime_ns for path in sys.path if os.path.isdir(path)]


def _user(env):
    return {name: value for name, value in env.items() if not name.startswith(("JPY_", "PYDEVD_"))}


def _bundle(static_dir):
    """The build of JupyterLab's page, of customize.sh; None for another page, and for Notebook 7."""
    try:
        with open(os.path.join(static_dir, "index.html")) as file:
            found = re.search(r"<!-- berth-bundle ([0-9a-f]{32}) -->", file.read())
    except FileNotFoundError:
        return None
    return found and found[1]


def _extensions(page_config):
    return {(extension["name"], extension["load"]) for extension in page_config["federated_extensions"]}


def _extensions_of_image():
    """Those of the page that the image brings (page.sh); None while it is made."""
    try:
        with open(PAGE) as file:
            found = re.search(r'<script id="jupyter-config-data" type="application/json">(.*?)</script>', file.read())
    except FileNotFoundError:
        return None
    return _extensions(json.loads(found[1]))


def _configure_page(handler, page_config):
    """A hook of JupyterLab's page. The gateway sends X-Berth-Lab with what it has."""
    if "BERTH_JUPYTER_OF_IMAGE" in os.environ:
        page_config = {**page_config, "berthNotice": OF_IMAGE}
    offered = handler.request.headers.get("X-Berth-Lab", "").split()
    bundle = _bundle(handler.extensionapp.static_dir) if offered else None
    if bundle not in offered:
        return page_config
    page_config = {**page_config, "fullStaticUrl": f"/.berth/lab/{bundle}"}
    image = _extensions_of_image()
    if image is None or _extensions(page_config) <= image:
        page_config["fullLabextensionsUrl"] = f"/.berth/lab/{bundle}/extensions"
    return page_config


def _export_formats():
    """The list that the image has; None if packages have changed since."""
    try:
        if max(_packages()) > os.stat(EXPORT_FORMATS).st_mtime_ns:
            return None
        with open(EXPORT_FORMATS) as file:
            return file.read()
    except FileNotFoundError:
        return None


def _command(app):
    """What runs the module of Python's kernel; None if another kernel is named so."""
    from jupyter_client.kernelspec import NoSuchKernel

    try:
        program, *arguments = app.kernel_spec_manager.get_kernel_spec("python3").argv
    except NoSuchKernel:
        return None
    if MODULE not in arguments:
        return None
    return [sys.executable if program.startswith("python") else program, *arguments[: arguments.index(MODULE)]]


class WarmKernel:
    process = None

    def prepare(self, command):
        self.command, self.packages, self.environment = command, _packages(), dict(os.environ)
        self.process = subprocess.Popen([*command, __name__], stdin=subprocess.PIPE, cwd="/", start_new_session=True)

    def become(self, command, cwd, env, independent):
        """Returns the process as the kernel of this command, or None if it is none for it."""
        process, self.process = self.process, None
        if process is None:
            return None
        count = len(self.command) + 1
        usual = command[:count] == [*self.command, MODULE] and not independent
        if not usual or _user(env) != _user(self.environment) or _packages() != self.packages or process.poll() is not None:
            process.stdin.close()
            threading.Thread(target=process.wait, daemon=True).start()
            return None
        start = {"args": command[count:], "cwd": cwd or os.getcwd(), "env": {**env, "JPY_PARENT_PID": str(os.getpid())}}
        process.stdin.write(json.dumps(start).encode())
        process.stdin.close()
        return process

    def drop(self):
        self.become([], None, {}, True)


def _load_jupyter_server_extension(app):
    from jupyter_client.provisioning import local_provisioner
    from jupyter_server.base.handlers import APIHandler
    from jupyter_server.services.nbconvert.handlers import NbconvertRootHandler
    from jupyter_server.utils import url_path_join
    from tornado import web

    warm = WarmKernel()
    launch = local_provisioner.launch_kernel

    def launch_kernel(cmd, stdin=None, stdout=None, stderr=None, env=None, independent=False, cwd=None, **more):
        special = stdin is not None or stdout is not None or stderr is not None or env is None or more
        process = None if special else warm.become(cmd, cwd, env, independent)
        return process or launch(cmd, stdin, stdout, stderr, env, independent, cwd, **more)

    local_provisioner.launch_kernel = launch_kernel

    def listening():
        command = _command(app)
        if command is not None:
            app.io_loop.call_later(PREPARE_S, warm.prepare, command)
            app.io_loop.call_later(UNUSED_S, warm.drop)

    app.io_loop.add_callback(listening)
    app.web_app.settings.setdefault("page_config_hook", _configure_page)

    class ExportFormats(NbconvertRootHandler):
        @web.authenticated
        async def get(self):
            changed = any("Exporter" in name for name in self.config)
            formats = None if changed else _export_formats()
            if formats is None:
                return await super().get()
            self.finish(formats)

    app.web_app.add_handlers(".*$", [(url_path_join(app.base_url, "/api/nbconvert"), ExportFormats)])

    class NoLanguageServers(APIHandler):
        @web.authenticated
        def get(self):
            self.finish(json.dumps({"version": 2, "sessions": {}, "specs": {}}))

    if importlib.util.find_spec("jupyter_lsp") is None:
        app.web_app.add_handlers(".*$", [(url_path_join(app.base_url, "/lsp/status"), NoLanguageServers)])

    from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

    nudge = ZMQChannelsWebsocketConnection.nudge

    async def nudge_subscribed(connection):
        await asyncio.sleep(SUBSCRIPTION_S)
        if connection.channels:
            await nudge(connection)

    ZMQChannelsWebsocketConnection.nudge = lambda connection: asyncio.ensure_future(nudge_subscribed(connection))


def _jupyter_server_extension_points():
    return [{"module": "berth_lab"}]


def _await_start():
    """Runs in the process that becomes the kernel."""
    del sys.path[0]
    from ipykernel import debugger, ipkernel, kernelapp, zmqshell  # noqa: F401

    text = sys.stdin.read()
    if not text:
        return
    start = json.loads(text)
    os.environ.clear()
    os.environ.update(start["env"])
    os.chdir(start["cwd"])
    sys.argv = [importlib.util.find_spec(MODULE).origin, *start["args"]]
    kernelapp.launch_new_instance()


if __name__ == "__main__":
    _await_start()
