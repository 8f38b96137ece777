#!/bin/sh
# Runs when the recipe's packages are installed; $1 is the image's root.
set -eu
root=$1

mv "$root/usr/bin/py3compile.real" "$root/usr/bin/py3compile"
chroot "$root" dpkg-divert --quiet --local --remove --no-rename /usr/bin/py3compile

# Extensions of Jupyter's server (kept_output.py, berth_lab.py) and one of its page.
part=$(dirname "$0")
lab=$root/usr/share/jupyter/labextensions/berth-kept-output
mkdir -p "$lab/static" "$root/etc/jupyter/jupyter_server_config.d"
cp "$part/kept_output.py" "$part/berth_lab.py" "$root/usr/lib/python3/dist-packages/"
cp "$part/kept-output.js" "$lab/static/"
printf '{"name":"berth-kept-output","version":"1.0.0","jupyterlab":{"extension":true,"_build":{"load":"static/kept-output.js","extension":"./extension"}}}\n' \
  >"$lab/package.json"
printf '{"ServerApp":{"jpserver_extensions":{"kept_output":true,"berth_lab":true}}}\n' \
  >"$root/etc/jupyter/jupyter_server_config.d/berth.json"

# JupyterLab's page loads 120 scripts, each found by the one before. They come in one file in front;
# what few pages need stays apart (plots of Vega, terminals, formulas, languages other than Python).
(
  cd "$root/usr/share/jupyter/lab/static"
  main=$(echo main.*.js)
  stamp=${main#main.}
  for script in *."$stamp"; do
    case $script in
      main.* | start.* | *_vega* | *_xterm* | *_mathjax* | *_lang-* | *_legacy-modes* | *_lumino_datagrid*) ;;
      *_regexp-match* | *_react-json-tree*) ;;
      *) cat "$script" && echo ';' ;;
    esac
  done >"start.$stamp"
  first="<script defer=\"defer\" src=\"{{page_config.fullStaticUrl}}/"
  sed -i "s#$first$main\"></script>#${first}start.$stamp\"></script>&#" index.html
  grep -q "start.$stamp" index.html
  # Names this build of the page for the gateway, which serves it to all instances (berth_lab.py). A
  # page of another build replaces the file, and with it the name.
  bundle=$(find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c -32)
  sed -i "s/<head>/&<!-- berth-bundle $bundle -->/" index.html
  grep -q "berth-bundle $bundle" index.html
)

chroot "$root" python3 -m compileall -q -j 0 /usr/lib/python3/dist-packages

# Removes the stand-in (prepare.sh), and the dependencies that packages declare on its contents:
# otherwise 'apt-get install npm' would accept the stand-in as the real libraries. These packages are
# held, because apt would reinstall the originals; a new image renews them.
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

# 'pip install' works in notebooks. It writes to /usr/local, so no file of Debian is overwritten.
printf '[global]\nbreak-system-packages = true\nroot-user-action = ignore\n' >"$root/etc/pip.conf"

# Otherwise JupyterLab asks each user whether it may fetch news from the project's site.
mkdir -p "$root/etc/jupyter/labconfig"
printf '{"disabledExtensions":{"@jupyterlab/apputils-extension:announcements":true}}\n' >"$root/etc/jupyter/labconfig/page_config.json"
# Seconds between saves of an open notebook.
printf '{"@jupyterlab/docmanager-extension:plugin":{"autosaveInterval":10}}\n' \
  >"$root/etc/jupyter/labconfig/default_setting_overrides.json"
chmod -R u=rwX,go=rX "$lab" "$root"/usr/lib/python3/dist-packages/kept_output.py \
  "$root"/usr/lib/python3/dist-packages/berth_lab.py "$root/etc/jupyter"

# Instances share the image, so it holds no host key; Berth makes one for each instance.
rm -f "$root"/etc/ssh/ssh_host_*

# Settings of the build only: instances get recommended packages as on any Debian.
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"
