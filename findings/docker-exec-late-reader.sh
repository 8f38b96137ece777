#!/bin/sh
# Software:  Docker Engine 29: github.com/moby/moby/v2 v2.0.0-beta.24, with containerd v2.2.9 and
#            runc v1.5.3 (Go modules, built here).
# Source:    daemon/monitor.go, the exit event of an exec: it waits 2 s for the streams, cancels
#            them, and holds the lock of the exec meanwhile, which daemon/inspect.go takes too.
#
# Behaviour: the output of a command (POST /exec/ID/start) loses its tail if its reader pauses for
#            more than two seconds while the command ends. The exit code is 0, the stream ends as any
#            other. By the source GET /exec/ID/json does not answer in those two seconds, so that a
#            client cannot learn in time that the command has ended.
# Surprise:  a pipe makes its writer wait; here "docker exec C program | slow-reader" is short by up
#            to 64 KiB, without an error. It needs an output a little above what the engine buffers
#            (1 MB and the socket), so that the command ends while its last bytes are in its pipe.
# Use:       never stop reading; or ask whether the command has ended, and take no answer for a yes.
# Needs:     root on Linux, Go 1.26.3 or later, gcc, unshare, curl. Builds for ten minutes at first.
# Output:    one line for each size of output that was cut, such as
#            wrote 1400000 bytes, exit code 0, read 1335023
# Exit:      0 while the behaviour is as described, 1 once no output is cut, 2 without what it needs.
set -eu
for program in go gcc unshare curl; do
  command -v "$program" >/dev/null || { echo "$program is missing" >&2; exit 2; }
done
[ "$(id -u)" = 0 ] || { echo 'root is needed' >&2; exit 2; }
folder=$(mktemp -d)
pids=
end() {
  for pid in $pids; do kill "$pid" 2>/dev/null || true; wait "$pid" || true; done
  sed -n "s|^[^ ]* [^ ]* [^ ]* [^ ]* \($folder/[^ ]*\) .*|\1|p" /proc/self/mountinfo | sort -r | xargs -r umount -l
  rm -rf "$folder"
}
trap end EXIT
mkdir "$folder/bin" "$folder/run"
export GOBIN="$folder/bin" GOFLAGS= GOTOOLCHAIN=local CGO_ENABLED=0
moby=github.com/moby/moby/v2/cmd containerd=github.com/containerd/containerd/v2/cmd
go install -trimpath -tags exclude_graphdriver_btrfs,no_systemd -ldflags '-s -w' \
  $moby/dockerd@v2.0.0-beta.24 $moby/docker-proxy@v2.0.0-beta.24 >&2
go install -trimpath -tags no_btrfs,no_devmapper,no_zfs -ldflags '-s -w' \
  $containerd/containerd@v2.2.9 $containerd/containerd-shim-runc-v2@v2.2.9 >&2
CGO_ENABLED=1 go install -trimpath -ldflags '-s -w' github.com/opencontainers/runc@v1.5.3 >&2
PATH=$folder/bin:$PATH

mkdir "$folder/image"
cat >"$folder/main.go" <<'GO'
package main

import (
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) == 1 {
		time.Sleep(time.Hour)
	}
	size, _ := strconv.Atoi(os.Args[1])
	os.Stdout.Write(make([]byte, size))
}
GO
go build -o "$folder/image/write" "$folder/main.go"

printf 'version = 3\nroot = "%s/containerd"\nstate = "%s/run/containerd"\n[grpc]\naddress = "%s/run/containerd.sock"\n' \
  "$folder" "$folder" "$folder" >"$folder/containerd.toml"
containerd --config "$folder/containerd.toml" >"$folder/log" 2>&1 &
pids=$!
until [ -S "$folder/run/containerd.sock" ]; do sleep 0.1; done
# Apart from the network of another engine, whose bridge it would remove.
unshare --net dockerd --containerd "$folder/run/containerd.sock" --data-root "$folder/data" --exec-root "$folder/run/docker" \
  --pidfile "$folder/run/pid" --host "unix://$folder/run/docker.sock" --bridge none --iptables=false --ip6tables=false \
  >>"$folder/log" 2>&1 &
pids="$! $pids"
until [ -S "$folder/run/docker.sock" ]; do sleep 0.1; done

ask() {
  method=$1 path=$2
  shift 2
  curl -sS --unix-socket "$folder/run/docker.sock" -X "$method" "http://docker$path" "$@"
}
json='Content-Type: application/json'
id() { sed -n 's/.*"Id":"\([0-9a-f]*\)".*/\1/p'; }
tar -C "$folder/image" -c . | ask POST '/images/create?fromSrc=-&repo=write&tag=1' --data-binary @- -H 'Content-Type: application/x-tar' >&2
container=$(ask POST /containers/create -H "$json" \
  -d '{"Image":"write:1","Cmd":["/write"],"HostConfig":{"NetworkMode":"none","SecurityOpt":["seccomp=unconfined"]}}' | id)
ask POST "/containers/$container/start"

try() {
  exec=$(ask POST "/containers/$container/exec" -H "$json" -d '{"AttachStdout":true,"Tty":true,"Cmd":["/write","'"$1"'"]}' | id)
  count=$(ask POST "/exec/$exec/start" -N -H "$json" -d '{"Detach":false,"Tty":true}' | { sleep 5; wc -c; })
  code=$(ask GET "/exec/$exec/json" | sed -n 's/.*"ExitCode":\([0-9]*\).*/\1/p')
  [ "$count" = "$1" ] || echo "wrote $1 bytes, exit code $code, read $count"
}
readers=
for size in $(seq 1100000 20000 1700000); do
  try "$size" >"$folder/$size" &
  readers="$readers $!"
done
for reader in $readers; do wait "$reader"; done
cat "$folder"/1[0-9]* | tee "$folder/cut"
[ -s "$folder/cut" ]
