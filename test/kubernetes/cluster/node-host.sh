#!/bin/bash
# Runs a node in namespaces of its own while stdin is open. Then removes the node's interface,
# control groups and, if it is temporary, folder: nothing outlives the process that started the node,
# even if that is killed. Prints `ready` with the process id of the node's PID 1.
#
# From the environment: NODE_NAME, GROUP (of control groups), INTERFACE, HOST_ADDRESS, NODE_ADDRESS,
# ROUTES (address ranges behind the node), ROUTES_BACK (behind its router), SERVICES, SIMULATED_PODS,
# FOLDER, PROGRAMS, CNI_PLUGINS, TEMPORARY (yes, or anything else). ROUTER: process of the node that
# this one is linked to, empty for this machine. DISKS: folder of that node that has the volumes.
set -eu

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  hierarchies=(/sys/fs/cgroup)
else
  hierarchies=()
  for hierarchy in /sys/fs/cgroup/*; do
    if [ -e "$hierarchy/cgroup.procs" ] && [ ! -e "$hierarchy/cgroup.controllers" ]; then hierarchies+=("$hierarchy"); fi
  done
fi

make_groups() {
  local hierarchy group
  for hierarchy in "${hierarchies[@]}"; do
    mkdir -p "$hierarchy/$GROUP/system"
    for group in "$hierarchy/$GROUP" "$hierarchy/$GROUP/system"; do
      # Version 1: a set of processors without members accepts no process.
      if [ -e "$hierarchy/cpuset.cpus" ]; then
        cat "$hierarchy/cpuset.cpus" >"$group/cpuset.cpus"
        cat "$hierarchy/cpuset.mems" >"$group/cpuset.mems"
      fi
    done
    # Version 2: the kubelet checks which controllers its group has.
    for group in "$hierarchy" "$hierarchy/$GROUP"; do
      if [ -e "$group/cgroup.subtree_control" ]; then
        sed 's/\</+/g' "$group/cgroup.controllers" >"$group/cgroup.subtree_control"
      fi
    done
  done
}

# Fails while there are any. The kubelet makes groups in every hierarchy, of both versions.
remove_groups() {
  local group found=no
  for group in /sys/fs/cgroup/"$GROUP" /sys/fs/cgroup/*/"$GROUP"; do
    if [ -e "$group" ] && ! find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; then found=yes; fi
  done
  [ $found = no ]
}

# A loop device is released a moment after the last mount of its file, whose path is the node's.
uses_loops() { grep -qsF "/$GROUP/" /sys/block/loop*/loop/backing_file; }

# Process id of PID 1 of the node, the only child of unshare; empty before it runs.
init_of_node() { xargs <"/proc/$outer/task/$outer/children"; }

remove() {
  trap '' INT TERM HUP PIPE
  set +e
  if [ -n "$outer" ]; then
    init=$(init_of_node)
    kill -KILL "${init:-$outer}"
    wait "$outer"
  fi 2>/dev/null
  if [ -z "$ROUTER" ]; then
    ip link delete "$INTERFACE"
    ip route delete local "$SIMULATED_PODS" dev lo
  fi 2>/dev/null
  for ((left = 100; left > 0; left -= 1)); do
    remove_groups && ! uses_loops && break
    sleep 0.1
  done
  if [ "$TEMPORARY" = yes ]; then rm -rf "$FOLDER"; fi
}

outer=''
program=$(dirname "$0")/node-init.sh
trap remove EXIT
rm -f "$FOLDER/initialized"
make_groups
(
  for hierarchy in "${hierarchies[@]}"; do echo "$BASHPID" >"$hierarchy/$GROUP/system/cgroup.procs"; done
  exec unshare --mount --net --pid --ipc --uts --fork --kill-child --mount-proc --propagation private \
    "$program" </dev/null >&2
) &
outer=$!
until init=$(init_of_node) && [ -n "$init" ]; do
  kill -0 "$outer"
  sleep 0.01
done
at_router() { if [ -n "$ROUTER" ]; then nsenter --target "$ROUTER" --net -- "$@"; else "$@"; fi; }
at_router ip link add "$INTERFACE" type veth peer name eth0 netns "$init"
at_router ip address add "$HOST_ADDRESS/30" dev "$INTERFACE"
at_router ip link set "$INTERFACE" up
for range in $ROUTES; do at_router ip route add "$range" via "$NODE_ADDRESS" dev "$INTERFACE"; done
if [ -n "$SIMULATED_PODS" ]; then ip route add local "$SIMULATED_PODS" dev lo; fi
until [ -e "$FOLDER/initialized" ]; do
  kill -0 "$init"
  sleep 0.01
done
echo "ready $init"
read -r _ || true
