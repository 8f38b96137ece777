#!/bin/sh
# Runs when the recipe's packages are installed; $1 is the image's root.
set -eu
root=$1

mv "$root/usr/bin/py3compile.real" "$root/usr/bin/py3compile"
chroot "$root" dpkg-divert --quiet --local --remove --no-rename /usr/bin/py3compile

# Kept output: an extension of Jupyter's server and one of its page.
part=$(dirname "$0")
lab=$root/usr/share/jupyter/labextensions/berth-kept-output
mkdir -p "$lab/static" "$root/etc/jupyter/jupyter_server_config.d"
cp "$part/kept_output.py" "$root/usr/lib/python3/dist-packages/"
cp "$part/kept-output.js" "$lab/static/"
printf '{"name":"berth-kept-output","version":"1.0.0","jupyterlab":{"extension":true,"_build":{"load":"static/kept-output.js","extension":"./extension"}}}\n' \
  >"$lab/package.json"
printf '{"ServerApp":{"jpserver_extensions":{"kept_output":true}}}\n' >"$root/etc/jupyter/jupyter_server_config.d/kept_output.json"
chmod -R u=rwX,go=rX "$lab" "$root/usr/lib/python3/dist-packages/kept_output.py" "$root/etc/jupyter"

chroot "$root" python3 -m compileall -q -j 0 /usr/lib/python3/dist-packages

# Removes the stand-in (prepare.sh), and the dependencies that two packages declare on its contents:
# otherwise 'apt-get install npm' would accept the stand-in as the real libraries. The two packages
# are held, because apt would reinstall the originals; a new image renews them.
chroot "$root" python3 - <<'END'
import re
path = '/var/lib/dpkg/status'
paragraphs = open(path).read().split('\n\n')
fields = lambda text: dict(re.findall(r'^(\S+): (.*)$', text, re.M))
name = lambda dependency: re.split(r'[ :(|]', dependency)[0]
stub = next(f for f in map(fields, paragraphs) if f.get('Package') == 'berth-notebook-stubs')
unwanted = set(map(name, stub['Provides'].split(', ')))
for i, text in enumerate(paragraphs):
    if fields(text).get('Package') in ('jupyterlab', 'python3-debugpy'):
        keep = [d for d in fields(text)['Depends'].split(', ') if name(d) not in unwanted]
        paragraphs[i] = re.sub(r'^Depends: .*$', lambda _: 'Depends: ' + ', '.join(keep), text, flags=re.M)
open(path, 'w').write('\n\n'.join(paragraphs))
END
chroot "$root" dpkg --purge berth-notebook-stubs
chroot "$root" apt-mark hold jupyterlab python3-debugpy

# 'pip install' works in notebooks. It writes to /usr/local, so no file of Debian is overwritten.
printf '[global]\nbreak-system-packages = true\nroot-user-action = ignore\n' >"$root/etc/pip.conf"

# Otherwise JupyterLab asks each user whether it may fetch news from the project's site.
mkdir -p "$root/etc/jupyter/labconfig"
printf '{"disabledExtensions":{"@jupyterlab/apputils-extension:announcements":true}}\n' >"$root/etc/jupyter/labconfig/page_config.json"

# Instances share the image, so it holds no host key; Berth makes one for each instance.
rm -f "$root"/etc/ssh/ssh_host_*

# Settings of the build only: instances get recommended packages as on any Debian.
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"
