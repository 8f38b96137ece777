#!/bin/sh
# Runs a command beside a Docker engine of its own: with-docker.sh FOLDER COMMAND [ARGUMENT...]
#
# FOLDER holds dockerd, docker-proxy, containerd and its shim. Runs in a network namespace of its
# own, since two engines in one undo each other's packet filter. DOCKER_HOST is the engine's address
# for the command, and BERTH_TEST_CDI its folder of CDI specs.
set -eu
programs=$1
shift
state=$(mktemp -d "${TMPDIR:-/tmp}/berth-world-XXXXXX")
chmod 711 "$state"
mkdir "$state/run" "$state/cdi"
engine= containerd=

end() {
  for pid in $engine $containerd; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
  done
  # A start that failed leaves its shim behind.
  pkill -KILL -f "containerd-shim.* $state/" || true
  sed -n "s|^[^ ]* [^ ]* [^ ]* [^ ]* \($state/[^ ]*\) .*|\1|p" /proc/self/mountinfo | sort -r | while read -r mount; do
    umount -l "$mount"
  done
  rm -rf "$state"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits for a socket, and shows the log of a program that has ended instead.
await() {
  until [ -S "$1" ]; do
    kill -0 "$2" 2>/dev/null || { tail -n 20 "$3" >&2; exit 1; }
    sleep 0.1
  done
}

ip link set lo up
# A way out that ends nowhere: without a route the kernel refuses what the packet filter should.
ip link add outside type veth peer name nowhere
ip link set nowhere up
ip link set outside up
ip address add 192.0.2.2/24 dev outside
ip route add default via 192.0.2.1

cat >"$state/containerd.toml" <<CONFIG
version = 3
root = "$state/containerd"
state = "$state/run/containerd"
[grpc]
address = "$state/run/containerd.sock"
CONFIG
cat >"$state/daemon.json" <<CONFIG
{
  "data-root": "$state/data",
  "exec-root": "$state/run/docker",
  "pidfile": "$state/run/dockerd.pid",
  "hosts": ["unix://$state/run/docker.sock"],
  "containerd": "$state/run/containerd.sock",
  "cdi-spec-dirs": ["$state/cdi"]
}
CONFIG
PATH=$programs:$PATH setsid containerd --config "$state/containerd.toml" >"$state/containerd.log" 2>&1 &
containerd=$!
await "$state/run/containerd.sock" "$containerd" "$state/containerd.log"
PATH=$programs:$PATH setsid dockerd --config-file "$state/daemon.json" >"$state/dockerd.log" 2>&1 &
engine=$!
await "$state/run/docker.sock" "$engine" "$state/dockerd.log"

status=0
DOCKER_HOST=unix://$state/run/docker.sock BERTH_TEST_CDI=$state/cdi "$@" || status=$?
exit "$status"
