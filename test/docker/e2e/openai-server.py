"""
A model server with the part of OpenAI's interface that streams, on 8000 for whoever has its key and on 8001 for everybody. A token
comes every 100 ms; or, of the model "in-step", only when GET /next says that the one before has arrived. What becomes of each answer is
noted in a file, a line of JSON each, and told by GET /notes.
"""
import collections
import http.server
import json
import threading
import time

KEY = "Bearer sk-of-the-server"
NOTES = "/tmp/notes"
arrived = collections.defaultdict(lambda: threading.Semaphore(0))
lock = threading.Lock()


def note(**facts):
    with lock, open(NOTES, "a") as file:
        file.write(json.dumps(facts) + "\n")


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        where, _, run = self.path.partition("?")
        if where == "/next":
            arrived[run].release()
            return self.answer(200, b"{}")
        with lock, open(NOTES, "a+") as file:
            file.seek(0)
            lines = file.read().splitlines()
        self.answer(200, ("[" + ",".join(lines) + "]").encode())

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        run = asked["user"]
        note(run=run, what="asked", headers={name.lower(): value for name, value in self.headers.items()}, path=self.path)
        if self.server.server_port == 8000 and self.headers["authorization"] != KEY:
            return self.answer(401, b'{"error":{"message":"not a key of this model server"}}')
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        made = 0
        try:
            for made in range(1, asked["max_tokens"] + 1):
                self.event(run, {"delta": {"content": f"{made} "}, "finish_reason": None})
                if asked["model"] != "in-step":
                    time.sleep(0.1)
                elif not arrived[run].acquire(timeout=10):
                    raise TimeoutError("the token has not arrived")
            self.event(run, {"delta": {}, "finish_reason": "stop"})
            self.chunk(b"data: [DONE]\n\n")
            self.chunk(b"")
            note(run=run, what="done", made=made)
        except OSError:
            note(run=run, what="gone", made=made)
            self.close_connection = True

    def event(self, run, choice):
        told = {"id": run, "object": "chat.completion.chunk", "created": int(time.time()), "model": "counting"}
        self.chunk(b"data: " + json.dumps({**told, "choices": [{"index": 0, **choice}]}).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


for port in (8000, 8001):
    threading.Thread(target=Server(("0.0.0.0", port), Model).serve_forever).start()
