"""
Settings of Jupyter's server that are Berth's; each other is the image's or the user's. Made for
Jupyter Server 1 and 2; start.sh adds flags, and the same for Notebook 6.

The secret is passed in a file: flags are visible in ps, the environment in every kernel. Jupyter
writes its token into every page. With Jupyter Server 2, an identity provider expects the secret in
the header that the gateway adds, and no page contains the secret. Older versions get it as their
token.
"""
import hmac, os, shlex
def read_environment():
    with open("/etc/berth/env", newline="") as file:
        changed = os.fstat(file.fileno()).st_mtime_ns
        return changed, dict(word.split("=", 1) for word in shlex.split(file.read()) if word != "export")
changed, variables = read_environment()
def refresh_environment():
    """Later kernels and terminals get variables that have changed since the start."""
    global changed, variables
    if os.stat("/etc/berth/env").st_mtime_ns == changed:
        return
    before = variables
    changed, variables = read_environment()
    for name in before.keys() - variables.keys():
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in variables.items() if before.get(name) != value})
with open("/etc/berth/notebook-token") as file:
    secret = "token " + file.read().strip()
try:
    from jupyter_server.auth.identity import IdentityProvider, User
except ImportError:
    c.ServerApp.token = secret[6:]
    c.ServerApp.password = ""
else:
    class GatewayIdentity(IdentityProvider):
        """The owner: the gateway authorizes each request."""
        def is_token_authenticated(self, handler):
            given = handler.request.headers.get("Authorization", "")
            return hmac.compare_digest(given.encode(), secret.encode())
        def get_user(self, handler):
            if not self.is_token_authenticated(handler):
                return None
            refresh_environment()
            return User("owner")
    c.ServerApp.identity_provider_class = GatewayIdentity
    c.IdentityProvider.token = ""
# Tornado lets a small message of a kernel wait until the one before is acknowledged, up to 40 ms.
from tornado.http1connection import HTTP1Connection
detach = HTTP1Connection.detach
def detach_without_delay(connection):
    stream = detach(connection)
    stream.set_nodelay(True)
    return stream
HTTP1Connection.detach = detach_without_delay
# Anything else than plain HTTP below BERTH_BASE_URL is not what the gateway asks for.
c.ServerApp.ssl_options = {}
for name in "FileContentsManager", "LargeFileManager":
    for kind in name, "Async" + name:
        c[kind].root_dir = "/root"
        c[kind].preferred_dir = ""
# Messages for a page that is away would be kept without a limit, until the server is killed.
for kind in "MappingKernelManager", "AsyncMappingKernelManager":
    c[kind].buffer_offline_messages = False
