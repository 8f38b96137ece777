#!/bin/sh
# Runs inside of the image: stores the page that JupyterLab answers in a new instance, with a number
# of zeros, and the list of export formats. The gateway shows the page while the server starts
# (docs/reference/gateway.md), berth_lab.py answers the list.
set -eu
bundle=$1 base=/notebook/notebook-00000000-0000-0000-0000-000000000000/ socket=/tmp/lab.sock
export HOME=/root LANG=C.UTF-8
cd /root
# As start.sh has them, as far as the page shows it.
jupyter-lab --ServerApp.sock=$socket --ServerApp.base_url=$base --ServerApp.root_dir=/root \
  --ServerApp.preferred_dir=/root --ServerApp.allow_root=True --ServerApp.open_browser=False \
  --ServerApp.terminals_enabled=True --IdentityProvider.token= >/tmp/lab.log 2>&1 &
server=$!
tries=300
until [ -S $socket ] || [ $tries -eq 0 ]; do
  tries=$((tries - 1))
  sleep 0.1
done
ask() {
  curl --silent --show-error --fail --max-time 30 --unix-socket $socket -H "X-Berth-Lab: $bundle" \
    -o "$2" "http://localhost$base$1" || cat /tmp/lab.log >&2
}
ask lab /usr/share/jupyter/berth-page.html
ask api/nbconvert /usr/share/jupyter/berth-nbconvert.json
kill $server
wait $server || :
rm -rf $socket /tmp/lab.log /root/.jupyter /root/.local /root/.ipython /root/.cache
