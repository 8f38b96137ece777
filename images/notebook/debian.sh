#!/bin/sh
# Installs Debian's Python packages where PyPI can't be had; $1 is the image's root, $2 its name.
set -eu
root=$1

# Debian's jupyterlab depends on everything it is built from: 580 packages of Node.js libraries, a
# compiler, a browser test kit, 900 MB. The running server, Python over finished bundles, opens none
# of them. debugpy needs gdb only to attach to a running process, and coverage only for its tests.
# matplotlib uses fonttools to embed fonts in a PDF, which needs none of the packages that fonttools
# depends on (scipy and sympy among them), and its parts for Tk and for a page of its own are never
# used. An empty package provides all of these during the installation.
needless=$(chroot "$root" apt-cache show --no-all-versions jupyterlab | sed -n 's/^Depends: //p' | tr ',' '\n' |
  sed 's/^ *//; s/[ :|(].*//' | grep -v '^python3' | sort -u)
fonttools='python3-brotli python3-fs python3-lxml python3-lz4 python3-scipy python3-sympy python3-ufolib2
  python3-unicodedata2 python3-zopfli unicode-data'
matplotlib='python3-pil.imagetk libjs-jquery libjs-jquery-ui'
provides=$(for name in $needless gdb python3-coverage $fonttools $matplotlib; do printf '%s (= 999), ' "$name"; done)
stub=$root/tmp/stub
mkdir -p "$stub/DEBIAN"
cat >"$stub/DEBIAN/control" <<END
Package: berth-notebook-stubs
Version: 1
Architecture: all
Maintainer: Berth <root@localhost>
Provides: ${provides%, }
Description: stands for what is not wanted
END
chroot "$root" dpkg-deb --build /tmp/stub /tmp/stub.deb >/dev/null
chroot "$root" dpkg --install /tmp/stub.deb
rm -r "$stub" "$stub.deb"

# Each of 120 Python packages would start its own compiler.
chroot "$root" dpkg-divert --quiet --local --add --no-rename --divert /usr/bin/py3compile.real /usr/bin/py3compile
mv "$root/usr/bin/py3compile" "$root/usr/bin/py3compile.real"
printf '#!/bin/sh\n' >"$root/usr/bin/py3compile"
chmod 0755 "$root/usr/bin/py3compile"

packages='jupyterlab jupyter-core jupyter-client jupyter-server jupyter-nbconvert python3-ipykernel python3-pip'
[ "$2" = notebook-small ] ||
  packages="$packages libopenblas0-pthread python3-numpy python3-pandas python3-matplotlib python3-ipywidgets"
if [ -n "${MMDEBSTRAP_APT_CONFIG:-}" ]; then
  apt_get() { APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -oDPkg::Chroot-Directory="$root" "$@"; }
else
  apt_get() { chroot "$root" apt-get "$@"; }
fi
# shellcheck disable=SC2086  # a list of names
apt_get --yes -oAPT::Install-Recommends=false install $packages

mv "$root/usr/bin/py3compile.real" "$root/usr/bin/py3compile"
chroot "$root" dpkg-divert --quiet --local --remove --no-rename /usr/bin/py3compile

# Removes the stand-in, and the dependencies that packages declare on its contents: otherwise
# 'apt-get install npm' would accept the stand-in as the real libraries. These packages are held,
# because apt would reinstall the originals; a new image renews them.
changed=$(chroot "$root" python3 - <<'END'
import re
path = '/var/lib/dpkg/status'
paragraphs = open(path).read().split('\n\n')
fields = lambda text: dict(re.findall(r'^(\S+): (.*)$', text, re.M))
name = lambda dependency: re.split(r'[ :(|]', dependency)[0]
stub = next(f for f in map(fields, paragraphs) if f.get('Package') == 'berth-notebook-stubs')
unwanted = set(map(name, stub['Provides'].split(', ')))
for i, text in enumerate(paragraphs):
    depends = fields(text).get('Depends', '').split(', ')
    keep = [d for d in depends if name(d) not in unwanted]
    if keep != depends:
        paragraphs[i] = re.sub(r'^Depends: .*$', lambda _: 'Depends: ' + ', '.join(keep), text, flags=re.M)
        print(fields(text)['Package'])
open(path, 'w').write('\n\n'.join(paragraphs))
END
)
chroot "$root" dpkg --purge berth-notebook-stubs
# shellcheck disable=SC2086  # a list of names
chroot "$root" apt-mark hold $changed

# pip stops at a package without RECORD. With an empty one it says that there is nothing to remove,
# and installs to /usr/local, which comes first.
for info in "$root"/usr/lib/python3/dist-packages/*.dist-info; do
  [ -e "$info/RECORD" ] || : >"$info/RECORD"
done
# The page is where pip installs it: a newer JupyterLab brings its own.
mkdir -p "$root/usr/local/share/jupyter"
mv "$root/usr/share/jupyter/lab" "$root/usr/local/share/jupyter/lab"
