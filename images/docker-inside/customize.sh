#!/bin/sh
# Runs when the recipe's packages are installed; $1 is the image's root.
set -eu
root=$1

# User of the daemon outside of its namespace, and the range of its containers' users: far from ids
# of people and from ranges of other programs (systemd keeps 1879048192 and up free).
# src/engines/docker/container/docker-inside-options.ts has the same numbers.
echo 'inside:x:1879048192:1879048192::/run:/bin/sh' >>"$root/etc/passwd"
echo 'inside:x:1879048192:' >>"$root/etc/group"
for file in subuid subgid; do echo 'inside:1879113728:65536' >"$root/etc/$file"; done

# newuidmap and newgidmap assign the range. Setuid would make them a root that may not write another
# user's /proc/<pid>/uid_map; with one capability each they stay the daemon's user.
chmod u-s "$root/usr/bin/newuidmap" "$root/usr/bin/newgidmap"
chroot "$root" /sbin/setcap cap_setuid+ep /usr/bin/newuidmap
chroot "$root" /sbin/setcap cap_setgid+ep /usr/bin/newgidmap

# The instance's disks are mounted below /root, which the daemon enters without rights of its own.
chmod 0755 "$root/root"

cat >"$root/usr/local/sbin/docker-inside" <<'END'
#!/bin/sh
# The Docker daemon of one instance: `rootless` or `nested`. Data is on a disk at /srv/docker. The
# socket is in /run/berth-docker, which the instance sees too, and at the usual path for
# containers that mount it.
set -eu

# A daemon does not start on a full disk, and then nothing could be removed. A file reserves some
# space while there is enough, and is removed before a start without space.
hold_room() {
  room_kb=$(df --output=avail -k /srv/docker | tail -n 1)
  if [ "$room_kb" -lt 65536 ]; then
    rm -f /srv/docker/held-back
  elif [ ! -e /srv/docker/held-back ] && [ "$room_kb" -gt 262144 ]; then
    fallocate -l 64M /srv/docker/held-back || rm -f /srv/docker/held-back
  fi
}

daemon() {
  exec "$@" --data-root=/srv/docker --exec-root=/run/docker --pidfile=/run/docker.pid --log-level=warn \
    --host=unix:///run/berth-docker/docker.sock --host=unix:///run/docker.sock
}

case $1 in
  rootless)
    # In a user namespace the device is the host's, which the host opens to all.
    chmod 0666 /dev/net/tun 2>/dev/null || :
    exec setpriv --reuid=inside --regid=inside --clear-groups sh "$0" as-user
    ;;
  as-user)
    hold_room
    export HOME=/run XDG_RUNTIME_DIR=/run
    daemon rootlesskit --state-dir=/run/rootlesskit --net=slirp4netns --mtu=65520 --slirp4netns-sandbox=auto \
      --slirp4netns-seccomp=auto --disable-host-loopback --port-driver=builtin --copy-up=/etc --propagation=rslave \
      dockerd --rootless &
    kit=$!
    # On SIGTERM rootlesskit ends at once, and all containers with it. The daemon stops containers
    # first, so the signal goes to the daemon.
    trap 'kill -s TERM "$(cat /run/docker.pid)" 2>/dev/null || kill -s TERM $kit' TERM
    code=0
    while kill -0 $kit 2>/dev/null; do wait $kit || code=$?; done
    exit $code
    ;;
  nested)
    hold_room
    # The engine mounts these read-only in containers that are not privileged.
    for folder in /sys/fs/cgroup /sys/fs/cgroup/*/; do
      ! mountpoint -q "$folder" || mount -o remount,bind,rw "$folder"
    done
    echo 1 >/proc/sys/net/ipv4/ip_forward
    daemon dockerd
    ;;
esac
END
chmod 0755 "$root/usr/local/sbin/docker-inside"

# Settings of the build only.
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"
