#!/bin/sh
# Software:  Caddy 2.6.2, request_body max_size in front of reverse_proxy.
# Source:    package caddy 2.6.2-5 of Debian 12; modules/caddyhttp/requestbody.
#
# Behaviour: a body over the limit, with its Content-Length, is answered by 502 where the site is a
#            reverse proxy, though the log of the same request has "HTTP 413". A site that answers
#            without reading takes it by 200.
# Surprise:  the length is known before a byte is read, and is compared with nothing: the limit is
#            met by whoever reads. The proxy reads it while it writes to its upstream, and tells that
#            as a fault of the upstream, so clients repeat a request that can never pass.
# Guess:     413 at once, as by client_max_body_size of nginx.
# Use:       look for the words of the limit in Caddy's log behind a 502 of uploads alone.
# Output:    reverse_proxy, below the limit: 200
#            reverse_proxy, above the limit: 502
#            respond, above the limit: 200
#            in the log: HTTP 413: http: request body too large
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
caddy= upstream=
end() {
  for pid in $caddy $upstream; do kill "$pid"; done
  rm -rf "$folder"
}
trap end EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -qq caddy=2.6.2-5 >&2
dpkg -x caddy_*.deb caddy
cat >upstream.py <<'SCRIPT'
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Reader(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Reader)
print(server.server_port, file=open("upstream.port", "w"), flush=True)
server.serve_forever()
SCRIPT
python3 upstream.py 2>upstream.log &
upstream=$!
until [ -s upstream.port ]; do sleep 0.1; done
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
proxying=$(free) answering=$(free)
cat >Caddyfile <<SCRIPT
{
	admin off
	auto_https off
}
http://127.0.0.1:$proxying {
	request_body {
		max_size 1MB
	}
	reverse_proxy 127.0.0.1:$(cat upstream.port)
}
http://127.0.0.1:$answering {
	request_body {
		max_size 1MB
	}
	respond "answered"
}
SCRIPT
HOME=$folder caddy/usr/bin/caddy run --config Caddyfile 2>caddy.log &
caddy=$!
until curl -s -o answer "http://127.0.0.1:$answering/"; do sleep 0.1; done
head -c 500000 /dev/zero >below
head -c 2000000 /dev/zero >above
post() { curl -s -o answer -w '%{http_code}\n' --data-binary "@$1" "http://127.0.0.1:$2/"; }
{
  printf 'reverse_proxy, below the limit: '; post below "$proxying"
  printf 'reverse_proxy, above the limit: '; post above "$proxying"
  printf 'respond, above the limit: '; post above "$answering"
  printf 'in the log: '; grep -o -m 1 'HTTP 413: http: request body too large' caddy.log
} | tee output
cat >expected <<'SCRIPT'
reverse_proxy, below the limit: 200
reverse_proxy, above the limit: 502
respond, above the limit: 200
in the log: HTTP 413: http: request body too large
SCRIPT
cmp -s output expected
