#!/bin/sh
# Runs after the base system and before the recipe's packages are installed; $1 is the image's root.
set -eu
root=$1

# Debian's jupyterlab depends on everything it is built from: 580 packages of Node.js libraries, a
# compiler, a browser test kit, 900 MB. The running server, Python over finished bundles, opens none
# of them. debugpy needs gdb only to attach to a running process, and coverage only for its tests.
# matplotlib uses fonttools to embed fonts in a PDF, which needs none of the packages that fonttools
# depends on (scipy and sympy among them), and its parts for Tk and for a page of its own are never
# used. An empty package provides all of these during the installation; customize.sh removes it.
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

# The base system was unpacked before dpkg knew what the recipe leaves out.
find "$root/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$root"/usr/share/man/* "$root"/usr/share/info/*
find "$root/usr/share/locale" -mindepth 1 -maxdepth 1 ! -name locale.alias -exec rm -r {} +

# Each of 120 Python packages would start its own compiler; customize.sh compiles all at once.
chroot "$root" dpkg-divert --quiet --local --add --no-rename --divert /usr/bin/py3compile.real /usr/bin/py3compile
printf '#!/bin/sh\n' >"$root/usr/bin/py3compile"
chmod 0755 "$root/usr/bin/py3compile"
