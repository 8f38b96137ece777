"""
Keeps cell output that arrives while no page is open. Jupyter sends output to the page that ran the
cell and stores nothing: a page that is reloaded, or opened the next morning, never shows it. This
extension keeps each run of a cell until a page that follows the run was present at its end. A page
that opens a notebook asks for the kept output, and follows the runs in progress (kept-output.js).

    GET <base>/berth/kept/<kernel>?session=<session of the page's kernel connection>
    {"runs": [{"id", "cell", "done", "cut", "messages"}]}
"""
import json
from collections import OrderedDict

from jupyter_client.session import Session
from jupyter_server.base.handlers import APIHandler
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1
from jupyter_server.utils import url_path_join
from tornado import web

# Limits of a kernel; the oldest runs are dropped. A longer run is kept up to its limit, with `cut`.
MOST_RUNS = 50
MOST_BYTES = 32 * 1024 * 1024
MOST_BYTES_OF_A_RUN = 8 * 1024 * 1024
SHOWN = {"stream", "display_data", "execute_result", "error", "clear_output", "update_display_data", "execute_input"}


class Run:
    def __init__(self, cell, session):
        self.cell = cell
        self.followers = {session}
        self.messages = []
        self.bytes = 0
        self.cut = False
        self.done = False


class Kept:
    def __init__(self):
        self.runs = {}
        self.streams = {}
        self.pages = set()

    def asked(self, kernel, session, message):
        if isinstance(message, bytes):
            if b'"execute_request"' not in message:
                return
            _, (header, _, metadata, *_) = deserialize_msg_from_ws_v1(message)
            header, metadata = json.loads(header), json.loads(metadata)
        else:
            if '"execute_request"' not in message:
                return
            whole = json.loads(message)
            header, metadata = whole["header"], whole["metadata"]
        cell = metadata.get("cellId")
        if header["msg_type"] != "execute_request" or not isinstance(cell, str):
            return
        runs = self.runs.setdefault(kernel, OrderedDict())
        # What the cell printed before is not shown any more.
        for id in [id for id, run in runs.items() if run.cell == cell]:
            del runs[id]
        runs[header["msg_id"]] = Run(cell, session)
        while len(runs) > MOST_RUNS:
            runs.popitem(last=False)

    def said(self, kernel, parts):
        header, parent, metadata, content = parts[1:5]
        runs = self.runs.get(kernel)
        run = runs and runs.get(json.loads(parent).get("msg_id"))
        if not run:
            return
        kind = json.loads(header)["msg_type"]
        if kind == "status" and json.loads(content)["execution_state"] == "idle":
            run.done = True
            if any((kernel, session) in self.pages for session in run.followers):
                del runs[json.loads(parent)["msg_id"]]
        if kind not in SHOWN or run.cut:
            return
        run.bytes += len(content)
        if run.bytes > MOST_BYTES_OF_A_RUN:
            run.cut = True
            return
        message = {"header": header, "parent_header": parent, "metadata": metadata, "content": content}
        run.messages.append({name: json.loads(part) for name, part in message.items()})
        while sum(each.bytes for each in runs.values()) > MOST_BYTES:
            runs.popitem(last=False)

    def told(self, kernel, session):
        """What a page does not know of that has come since; it follows what still runs."""
        runs = self.runs.get(kernel, {})
        new = [(id, run) for id, run in runs.items() if session not in run.followers]
        for id, run in new:
            run.followers.add(session)
            if run.done:
                del runs[id]
        return [
            {"id": id, "cell": run.cell, "done": run.done, "cut": run.cut, "messages": run.messages} for id, run in new
        ]

    def watch(self, manager, kernel):
        whole = manager.get_kernel(kernel)
        session = Session(config=whole.session.config, key=whole.session.key)
        stream = whole.connect_iopub()
        stream.on_recv(lambda frames: self.said(kernel, session.feed_identities(frames)[1]))
        self.streams[kernel] = stream

    def unwatch(self, kernel):
        self.runs.pop(kernel, None)
        stream = self.streams.pop(kernel, None)
        if stream is not None and not stream.socket.closed:
            stream.close()


def _load_jupyter_server_extension(app):
    kept = Kept()
    manager = app.kernel_manager
    start, stop = manager.start_watching_activity, manager.stop_watching_activity

    def start_and_keep(kernel):
        start(kernel)
        kept.watch(manager, kernel)

    def stop_and_forget(kernel):
        kept.unwatch(kernel)
        stop(kernel)

    manager.start_watching_activity = start_and_keep
    manager.stop_watching_activity = stop_and_forget

    class Followed(app.web_app.settings["kernel_websocket_connection_class"]):
        def connect(self):
            kept.pages.add((self.kernel_id, self.session.session))
            return super().connect()

        def disconnect(self):
            kept.pages.discard((self.kernel_id, self.session.session))
            return super().disconnect()

        def handle_incoming_message(self, message):
            kept.asked(self.kernel_id, self.session.session, message)
            return super().handle_incoming_message(message)

    app.web_app.settings["kernel_websocket_connection_class"] = Followed

    class KeptHandler(APIHandler):
        @web.authenticated
        def get(self, kernel):
            self.finish(json.dumps({"runs": kept.told(kernel, self.get_query_argument("session"))}))

    app.web_app.add_handlers(".*$", [(url_path_join(app.base_url, r"/berth/kept/([\w-]+)"), KeptHandler)])


def _jupyter_server_extension_points():
    return [{"module": "kept_output"}]
