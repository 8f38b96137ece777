#!/bin/bash
# PID 1 of a node, in namespaces of its own: when it ends, the kernel ends all processes of the node,
# and with them its mounts and network. The environment is described in node-host.sh.
set -eu
cd /
hostname "$NODE_NAME"

# The folder and the programs keep their paths wherever they lie. The state of all components is below
# /var and /run, so that they keep their default paths.
mkdir -p "$FOLDER"/var/{lib/cni,log,tmp,cache}
ln -sfn /run "$FOLDER/var/run"
mount -t tmpfs -o mode=755 node /mnt
mkdir /mnt/{lock,cluster,programs,cni}
mount --bind "$FOLDER" /mnt/cluster
mount --bind "$PROGRAMS" /mnt/programs
mount --bind "$CNI_PLUGINS" /mnt/cni
if [ -n "$DISKS" ]; then
  mkdir -p /mnt/disks "$FOLDER/var/lib/csi-driver"
  mount --bind "$DISKS" /mnt/disks
fi
mount --no-mtab --move /mnt /run
mount --bind /run/cluster/var /var
if [ -n "$DISKS" ]; then mount --bind /run/disks /var/lib/csi-driver; fi

# A sysfs mounted here shows the network of the node. The control groups are mounted below it.
mount --rbind /sys/fs/cgroup /mnt
mount -t sysfs sysfs /sys
mount --rbind /mnt /sys/fs/cgroup
umount -l /mnt
# Kubelet and containerd need shared mounts. Any earlier, the lazy unmount would propagate.
mount --make-rshared /

# The kubelet sets these for the whole machine: it writes to copies.
mkdir -p /run/sysctl
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
  kernel/keys/root_maxbytes; do
  copy=/run/sysctl/${name//\//-}
  cat "/proc/sys/$name" >"$copy"
  mount --bind "$copy" "/proc/sys/$name"
done

until ip link show eth0 >/dev/null 2>&1; do sleep 0.01; done
ip link set lo up
ip address add "$NODE_ADDRESS/30" dev eth0
ip link set eth0 up
# Nothing leaves the machine: the pull of an absent image fails at once.
ip route add unreachable default
# Processes of the node need a route to Services before kube-proxy rewrites the address.
ip route add "$SERVICES" dev eth0
for range in $ROUTES_BACK; do ip route add "$range" via "$HOST_ADDRESS" dev eth0; done
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables

touch /run/cluster/initialized
trap 'exit 0' TERM INT
# Bash reaps orphans while it waits.
while :; do
  sleep 1000 &
  wait $! || true
done
