"""
Keeps cell output that arrives while no page is open. Jupyter sends output to the page that ran the
cell and stores nothing: a page that is reloaded, opened the next morning, or whose connection was
lost for a moment, never shows it. This extension keeps each run of a cell until a page that follows
the run was present at its end, or has saved what it was told. A page asks for the kept output each
time that it connects to the kernel, and follows the runs in progress (kept-output.js).

    GET <base>/berth/kept/<kernel>?session=<session of the page's kernel connection>[&shared=1]
    {"runs": [{"id", "cell", "done", "messages", "heard", "before"}]}
    DELETE, with the same session, once this is saved

`messages` has {"cut": true} where some are left out; texts in a row are one. `heard` are ids of
messages that may have reached the page before the answer, `before` is the last one before the page
connected: one that it knows has missed nothing. `shared`: the document is shared by its
pages (jupyter-collaboration).
"""
import json
from collections import OrderedDict, deque
from time import monotonic

from jupyter_client.session import Session
from jupyter_server.base.handlers import APIHandler
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1
from jupyter_server.utils import url_path_join
from tornado import web

# Limits of a kernel; the oldest runs are dropped.
MOST_RUNS = 50
MOST_BYTES = 32 * 1024 * 1024
# Limits of a run, of texts and of all else: what came first, and what came last. A page shows this
# within a second.
FIRST_BYTES = {"text": 64 * 1024, "figure": 1024 * 1024}
MOST_BYTES_OF_A_RUN = {"text": 1024 * 1024, "figure": 8 * 1024 * 1024}
# A message costs this much, apart from its content.
MESSAGE_BYTES = 512
# Ids of recent messages, which a page may have heard already when it asks.
RECENT = 4096
TEXTS = {"stream", "error"}
SHOWN = TEXTS | {"display_data", "execute_result", "clear_output", "update_display_data", "execute_input"}


class Message:
    """Of the kernel, unparsed; that of a stream has the texts of those that came next, too."""

    def __init__(self, kind, parts, content, text=None):
        self.kind, self.parts = kind, parts
        self.of = "text" if kind in TEXTS else "figure"
        self.name = content.get("name") if kind == "stream" else None
        self.texts = deque([text]) if kind == "stream" else None
        self.bytes = MESSAGE_BYTES + len(parts["content"] if text is None else text)

    def public(self):
        message = {name: json.loads(part) for name, part in self.parts.items()}
        if self.texts is not None:
            message["content"]["text"] = "".join(self.texts)
        return message


class Run:
    def __init__(self, cell, session):
        self.cell = cell
        self.followers = {session}
        self.recent = deque(maxlen=RECENT)
        self.input = []
        self.done = False
        self.clear()

    def clear(self):
        """What was shown before the output was cleared is not shown any more."""
        self.first, self.last = [], deque()
        self.updates = {}
        self.bytes = {"text": 0, "figure": 0}
        self.first_full = self.clears = self.cut = False

    def size(self):
        return sum(self.bytes.values())

    def add(self, kind, parts, content):
        if kind == "execute_input":
            self.input = [Message(kind, parts, content)]
            return
        if self.clears or (kind == "clear_output" and not content.get("wait")):
            self.clear()
        self.clears = kind == "clear_output" and bool(content.get("wait"))
        if kind == "stream":
            self.add_text(parts, content)
            return
        message = Message(kind, parts, content)
        # Of a display that changes, the last state is kept.
        display = content.get("transient", {}).get("display_id") if kind == "update_display_data" else None
        former = self.updates.get(display)
        if former is not None:
            self.bytes["figure"] += message.bytes - former.bytes
            former.parts, former.bytes = message.parts, message.bytes
        else:
            self.append(message)
            if display is not None:
                self.updates[display] = message
        self.drop()

    def add_text(self, parts, content):
        text = content["text"]
        if not self.first_full:
            room = FIRST_BYTES["text"] - self.bytes["text"]
            self.append_text(parts, content, text[:room])
            text = text[room:]
            self.first_full = text != ""
        if text != "":
            self.append_text(parts, content, text)
        self.drop()

    def append_text(self, parts, content, text):
        messages = self.last if self.first_full else self.first
        before = messages[-1] if messages else None
        if before is None or before.name != content["name"]:
            self.append(Message("stream", parts, content, text))
            return
        before.texts.append(text)
        before.bytes += len(text)
        self.bytes["text"] += len(text)

    def append(self, message):
        if self.bytes[message.of] + message.bytes > FIRST_BYTES[message.of] + MESSAGE_BYTES:
            self.first_full = True
        (self.last if self.first_full else self.first).append(message)
        self.bytes[message.of] += message.bytes

    def drop(self):
        for of, most in MOST_BYTES_OF_A_RUN.items():
            while self.bytes[of] > most:
                message = next((each for each in self.last if each.of == of), None)
                if message is None:
                    break
                self.cut = True
                size = self.bytes[of] - most
                if message.texts is None or (len(message.texts) == 1 and len(message.texts[0]) <= size):
                    size = message.bytes
                    self.last.remove(message)
                    self.updates = {id: each for id, each in self.updates.items() if each is not message}
                elif len(message.texts[0]) > size:
                    message.texts[0] = message.texts[0][size:]
                    message.bytes -= size
                else:
                    size = len(message.texts.popleft())
                    message.bytes -= size
                self.bytes[of] -= size

    def public(self, since):
        notes = [{"cut": True}] if self.cut else []
        messages = [each.public() for each in self.input + self.first]
        messages += notes + [each.public() for each in self.last]
        heard = [id for at, id in self.recent if at >= since]
        before = next((id for at, id in reversed(self.recent) if at < since), None)
        return {"messages": messages, "heard": heard, "before": before}


class Kept:
    def __init__(self):
        self.runs = {}
        self.streams = {}
        self.pages = {}

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

    def said(self, kernel, frames):
        header, parent, metadata, content = frames[1:5]
        runs = self.runs.get(kernel)
        run = runs and runs.get(json.loads(parent).get("msg_id"))
        if not run:
            return
        head = json.loads(header)
        kind = head["msg_type"]
        if kind == "status" and json.loads(content)["execution_state"] == "idle":
            run.done = True
            if self.is_followed(kernel, run):
                del runs[json.loads(parent)["msg_id"]]
            else:
                run.followers.clear()
        if kind not in SHOWN:
            return
        run.recent.append((monotonic(), head["msg_id"]))
        parts = {"header": header, "parent_header": parent, "metadata": metadata, "content": content}
        run.add(kind, {name: bytes(part) for name, part in parts.items()}, json.loads(content))
        while sum(each.size() for each in runs.values()) > MOST_BYTES:
            runs.popitem(last=False)

    def is_followed(self, kernel, run):
        return any((kernel, session) in self.pages for session in run.followers)

    def connected(self, kernel, session):
        """A page that comes back may have missed some of what still runs."""
        for run in self.runs.get(kernel, {}).values():
            if not run.done:
                run.followers.discard(session)
        self.pages[kernel, session] = since = monotonic()
        return since

    def disconnected(self, kernel, session, since):
        if self.pages.get((kernel, session)) == since:
            del self.pages[kernel, session]

    def told(self, kernel, session, shared):
        """
        What a page does not know of that has come since; it follows what still runs. Pages that
        share a document show the output of one of them, so that another must not insert it, too.
        """
        runs = self.runs.get(kernel, {})
        new = [
            (id, run)
            for id, run in runs.items()
            if session not in run.followers and not (shared and self.is_followed(kernel, run))
        ]
        since = self.pages.get((kernel, session), 0)
        for _, run in new:
            run.followers.add(session)
        return [{"id": id, "cell": run.cell, "done": run.done, **run.public(since)} for id, run in new]

    def saved(self, kernel, session):
        runs = self.runs.get(kernel, {})
        for id in [id for id, run in runs.items() if run.done and session in run.followers]:
            del runs[id]

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
        since = None

        def connect(self):
            self.since = kept.connected(self.kernel_id, self.session.session)
            return super().connect()

        def disconnect(self):
            kept.disconnected(self.kernel_id, self.session.session, self.since)
            return super().disconnect()

        def handle_incoming_message(self, message):
            kept.asked(self.kernel_id, self.session.session, message)
            return super().handle_incoming_message(message)

    app.web_app.settings["kernel_websocket_connection_class"] = Followed

    class KeptHandler(APIHandler):
        @web.authenticated
        def get(self, kernel):
            session, shared = self.get_query_argument("session"), self.get_query_argument("shared", "") == "1"
            self.finish(json.dumps({"runs": kept.told(kernel, session, shared)}))

        @web.authenticated
        def delete(self, kernel):
            kept.saved(kernel, self.get_query_argument("session"))
            self.set_status(204)
            self.finish()

    app.web_app.add_handlers(".*$", [(url_path_join(app.base_url, r"/berth/kept/([\w-]+)"), KeptHandler)])


def _jupyter_server_extension_points():
    return [{"module": "kept_output"}]
