#!/bin/sh
# Runs when the recipe's packages are installed; $1 is the image's root, $2 its name.
set -eu
root=$1
part=$(dirname "$0")

lock=$part/requirements.txt
[ "$2" != notebook-small ] || lock=$part/requirements-small.txt
log=$root/tmp/python.log
if sh "$part/python.sh" "$root" "$lock" 2>"$log"; then
  prefix=/opt/venv
  site=$(cd "$root" && echo opt/venv/lib/python3*/site-packages)
else
  cat "$log" >&2
  why=$(grep -iE -m 1 'error|warning|failed' "$log" | cut -c -300)
  rm -rf "$root/opt/venv"
  sh "$part/debian.sh" "$root" "$2" >&2
  echo "I: the Python packages of PyPI cannot be had, these are Debian's: $why" >&2
  prefix=/usr/local
  site=usr/lib/python3/dist-packages
fi
rm -f "$log"

# Extensions of Jupyter's server (kept_output.py, berth_lab.py, whole_files.py) and of its page.
labs=$root/usr/share/jupyter/labextensions
mkdir -p "$root/etc/jupyter/jupyter_server_config.d" "$root/etc/jupyter/labconfig"
for name in kept_output berth_lab whole_files; do
  install -m 0644 "$part/$name.py" "$root/$site/"
done
for name in kept-output bar; do
  mkdir -p "$labs/berth-$name/static"
  cp "$part/$name.js" "$labs/berth-$name/static/"
  printf '{"name":"berth-%s","version":"1.0.0","jupyterlab":{"extension":true,"_build":{"load":"static/%s.js","extension":"./extension"}}}\n' \
    $name $name >"$labs/berth-$name/package.json"
done
printf '{"ServerApp":{"jpserver_extensions":{"kept_output":true,"berth_lab":true,"whole_files":true}}}\n' \
  >"$root/etc/jupyter/jupyter_server_config.d/berth.json"
# Otherwise JupyterLab asks each user whether it may fetch news from the project's site.
printf '{"disabledExtensions":{"@jupyterlab/apputils-extension:announcements":true}}\n' >"$root/etc/jupyter/labconfig/page_config.json"
# Seconds between saves of an open notebook.
printf '{"@jupyterlab/docmanager-extension:plugin":{"autosaveInterval":10}}\n' \
  >"$root/etc/jupyter/labconfig/default_setting_overrides.json"
chmod -R u=rwX,go=rX "$labs" "$root/etc/jupyter"

# Names this build of the page and of its extensions for the gateway, which serves it to all
# instances (berth_lab.py). A page of another build replaces the file, and with it the name.
static=$root$prefix/share/jupyter/lab/static
build=$(
  cd "$root"
  find "${prefix#/}/share/jupyter/lab/static" "${prefix#/}/share/jupyter/labextensions" usr/share/jupyter/labextensions \
    -type f 2>/dev/null | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c -32
)
sed -i "s/<head>/&<!-- berth-bundle $build -->/" "$static/index.html"
grep -q "berth-bundle $build" "$static/index.html"

# 'pip install' works in Debian's Python, too. It writes to /usr/local.
printf '[global]\nbreak-system-packages = true\nroot-user-action = ignore\n' >"$root/etc/pip.conf"

# The build sets the times of files back to its beginning: what Python had compiled from a newer file
# would be compiled again in each instance, two seconds of its start.
find "$root/$site" -name '*.py' -exec touch -d 2026-01-01 {} +
chroot "$root" env PATH=$prefix/bin:/usr/bin:/bin python3 -m compileall -q -j 0 "/$site"

if [ $prefix = /opt/venv ]; then
  # The image's own Jupyter, for an instance whose newer one does not start (start.sh). Hard links
  # take no space, and whatever replaces a file leaves the other name.
  cp -al "$root$prefix" "$root/opt/jupyter"
  cp "$part/jupyter-of-image.sh" "$root/opt/jupyter/start"
  chmod 0755 "$root/opt/jupyter/start"
fi

cp "$part/page.sh" "$root/tmp/page.sh"
chroot "$root" env PATH=$prefix/bin:/usr/bin:/bin sh /tmp/page.sh "$build"
rm "$root/tmp/page.sh"

# Instances share the image, so it holds no host key; Berth makes one for each instance.
rm -f "$root"/etc/ssh/ssh_host_*

# Settings of the build only: instances get recommended packages as on any Debian.
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"
