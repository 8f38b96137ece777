#!/bin/sh
# Installs the lock $2 into a virtual environment of the image at $1. Ends with another code than 0
# where a package can't be had: of no index, or not with the hash of the lock.
set -eu
root=$1 lock=$2 venv=/opt/venv

# Certificates and the index are those of this machine, the usual variables of pip and uv among them.
bundle=${SSL_CERT_FILE:-${PIP_CERT:-${REQUESTS_CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}}}
work=$root/tmp/python
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
[ ! -r "$bundle" ] || cp "$bundle" "$work/ca.pem"
cp "$lock" "$work/lock.txt"
sed -n '/^six==/,/[^\\]$/p' "$lock" >"$work/six.txt"
sed -n '/^uv==/,/[^\\]$/p' "$lock" >"$work/uv.txt"
unset REQUESTS_CA_BUNDLE PIP_FIND_LINKS PIP_CONFIG_FILE PIP_CONSTRAINT PIP_REQUIRE_VIRTUALENV UV_FIND_LINKS UV_CONFIG_FILE
[ ! -e "$work/ca.pem" ] || export SSL_CERT_FILE=/tmp/python/ca.pem PIP_CERT=/tmp/python/ca.pem
index=${PIP_INDEX_URL:-${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-}}}
[ -z "$index" ] || export PIP_INDEX_URL="$index" UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
[ -z "${PIP_EXTRA_INDEX_URL:-}" ] || export UV_INDEX="${UV_INDEX:-$PIP_EXTRA_INDEX_URL}"
[ -z "${PIP_TRUSTED_HOST:-}" ] || export UV_INSECURE_HOST="${UV_INSECURE_HOST:-$PIP_TRUSTED_HOST}"

inside() { chroot "$root" env HOME=/tmp/python LC_ALL=C.UTF-8 "$@"; }
pip() { inside sh -c 'PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) exec "$@"' sh "$@"; }
options='--quiet --disable-pip-version-check --no-compile --no-cache-dir --no-deps --require-hashes --root-user-action=ignore'

if [ ! -e "$root$venv/bin/uv" ]; then
  inside /usr/bin/python3 -m venv --without-pip --system-site-packages $venv
  # A small package first: an index that can't be reached is known within seconds.
  # shellcheck disable=SC2086  # words
  pip timeout 30 $venv/bin/python -m pip install $options --timeout 8 --retries 1 -r /tmp/python/six.txt
  # shellcheck disable=SC2086
  pip $venv/bin/python -m pip install $options --timeout 30 --retries 2 -r /tmp/python/uv.txt
fi
inside env UV_HTTP_TIMEOUT=30 $venv/bin/uv pip install --quiet --python $venv/bin/python --no-cache --no-config \
  --no-deps --require-hashes -r /tmp/python/lock.txt

site=$(echo "$root$venv"/lib/python3*/site-packages)
# Tests that nobody runs in an instance, and source maps.
rm -rf "$site"/pandas/tests "$site"/matplotlib/tests "$site"/mpl_toolkits/*/tests "$site"/jupyterlab/tests
find "$site/numpy" -depth -type d -name tests -exec rm -r {} + 2>/dev/null || :
find "$root$venv" -name '*.map' -delete

# 'pip install --user' installs here, too: for pip, a folder of the user would come after these packages.
cat >"$site/berth_user.pth" <<'END'
import os, sys; "--user" in sys.orig_argv and any(a.rpartition("/")[2].startswith("pip") for a in sys.orig_argv[1:3]) and os.environ.setdefault("PYTHONUSERBASE", sys.prefix)
END
# uv installs into the '.venv' of a folder above, if no environment is active.
ln -sfn $venv "$root/.venv"
