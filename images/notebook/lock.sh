#!/bin/sh
# Renews the locks of the Python packages: `sh images/notebook/lock.sh`, where uv is installed.
set -eu
cd "$(dirname "$0")"
export UV_CUSTOM_COMPILE_COMMAND='sh images/notebook/lock.sh'
lock() {
  name=$1
  shift
  rm -f "$name.txt"
  uv pip compile --quiet --generate-hashes --python-version 3.13 --python-platform linux "$name.in" \
    --output-file "$name.txt" "$@"
}
lock requirements
lock requirements-small --constraint requirements.txt
lock requirements-pytorch --constraint requirements.txt
