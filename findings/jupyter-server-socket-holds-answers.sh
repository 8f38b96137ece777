#!/bin/sh
# Software:  jupyter_server 2.21.1, tornado 6.6.1, ipykernel 7.4.0.
# Source:    PyPI; tornado/http1connection.py sets TCP_NODELAY to write the end of an answer and
#            takes it back; tornado/websocket.py leaves set_nodelay to the application, and
#            jupyter_server's kernel sockets never call it.
#
# Behaviour: a kernel answers a request with a few small messages (busy, the reply, idle). The first
#            leaves at once, the second waits in the server until the client has acknowledged the
#            first, which its kernel delays: every request in turn takes 40 ms and more, on loopback
#            as well. With TCP_NODELAY on the socket it takes less than a third of that (here a
#            tenth). A page of JupyterLab sends six such requests in a row when it opens a notebook.
# Surprise:  to set the option where the server listens changes nothing, though accepted sockets
#            inherit it: the framework takes it back with the handshake.
# Guess:     a server whose whole purpose is small messages in both directions sends them at once.
# Use:       wrap HTTP1Connection.detach, and set the option on the stream that it returns.
# Output:    as installed: 40 ms and more True
#            without delay: less than a third True
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check jupyter_server==2.21.1 tornado==6.6.1 ipykernel==7.4.0 >&2
cat >asked.py <<'SCRIPT'
import asyncio
import json
import statistics
import time
import uuid

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect


async def milliseconds(address):
    post = HTTPRequest(f"http://{address}/api/kernels", method="POST", body="{}")
    kernel = json.loads((await AsyncHTTPClient().fetch(post)).body)["id"]
    socket = await websocket_connect(f"ws://{address}/api/kernels/{kernel}/channels?session_id=one")
    took = []
    for _ in range(20):
        header = {"msg_id": str(uuid.uuid4()), "msg_type": "debug_request", "username": "", "session": "one"}
        header.update(version="5.3", date="2026-01-01T00:00:00Z")
        content = {"type": "request", "seq": 1, "command": "debugInfo"}
        request = {"channel": "control", "header": header, "parent_header": {}, "metadata": {}, "content": content}
        began = time.monotonic()
        await socket.write_message(json.dumps(request))
        while json.loads(await socket.read_message())["header"]["msg_type"] != "debug_reply":
            pass
        took.append((time.monotonic() - began) * 1000)
    return statistics.median(took[5:])
SCRIPT
cat >compare.py <<'SCRIPT'
import asyncio
import os
import subprocess
import sys
import time
import urllib.request

from asked import milliseconds

UNDELAYED = """
from tornado.http1connection import HTTP1Connection
detach = HTTP1Connection.detach
def undelayed(connection):
    stream = detach(connection)
    stream.set_nodelay(True)
    return stream
HTTP1Connection.detach = undelayed
"""
SETTINGS = "c.IdentityProvider.token = ''; c.ServerApp.disable_check_xsrf = True; c.ServerApp.allow_root = True\n"


def median(port, more):
    settings = os.path.abspath(f"settings-{port}.py")
    with open(settings, "w") as file:
        file.write(SETTINGS + more)
    command = [sys.executable, "-m", "jupyter_server", f"--config={settings}", f"--port={port}", "--no-browser"]
    with open("log", "a") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api").read()
                break
            except OSError:
                time.sleep(0.1)
        return asyncio.run(milliseconds(f"127.0.0.1:{port}"))
    finally:
        server.terminate()
        server.wait()


installed, undelayed = median(28811, ""), median(28812, UNDELAYED)
print(f"{installed:.0f} and {undelayed:.0f} ms", file=sys.stderr)
print("as installed: 40 ms and more", installed >= 40)
print("without delay: less than a third", undelayed * 3 < installed)
SCRIPT
HOME=$folder venv/bin/python compare.py | tee output
cat >expected <<'SCRIPT'
as installed: 40 ms and more True
without delay: less than a third True
SCRIPT
cmp -s output expected
