#!/bin/sh
# What Berth runs in every container, whatever the image: ssh, the init script and a notebook.
#
# Plain POSIX sh (dash, busybox ash and bash are tried), root, /etc/berth read-only and written by Berth:
#   init-script  authorized_keys (replaced while we run)  notebook-token  env (BERTH_INSTANCE_ID, BERTH_BASE_URL)
#   ssh-host-key (what sshd has when the instance has no host key yet)
# What it keeps, on the root disk, so across stop and start:
#   /var/lib/berth/instance/<id>/  host key, marker of the init script. By id, so that an instance made from a
#                                  saved image gets a host key and a first start of its own
#   /var/log/berth/                init.log, init.exit, notebook.log
# What it says on stdout is read by Berth:
#   berth: services ssh notebook | none
#   berth: init none | started | exit N | lost
# SIGTERM stops everything in the container and exits 0 within five seconds.

umask 022
exec 9>&2
stopping() {
  trap '' TERM INT HUP
  # -1 is everybody in the container, sshd's sessions and what users left behind included. Only a pid namespace of
  # our own makes that safe; otherwise the process group is what we started ourselves.
  everybody=0
  { [ $$ -eq 1 ] || [ "$PPID" -eq 1 ]; } && everybody=-1
  kill -s TERM -- "$everybody" 2>/dev/null
  deadline=$(($(date +%s) + 4))
  while anybody_left && [ "$(date +%s)" -lt "$deadline" ]; do
    sleep 0.1 2>/dev/null || sleep 1
  done
  [ "$everybody" -eq 0 ] || kill -s KILL -- -1 2>/dev/null
  exit 0
}
# Interactive shells ignore SIGTERM: whatever sits on a terminal is hung up, as when the terminal goes away.
anybody_left() {
  left=1
  for proc in /proc/[0-9]*; do
    pid=${proc#/proc/}
    [ "$pid" -eq 1 ] || [ "$pid" -eq $$ ] && continue
    read -r stat 2>/dev/null <"$proc/stat" || continue
    # shellcheck disable=SC2086  # after the name: state ppid pgrp session tty
    set -- ${stat##*) }
    [ "$1" = Z ] && continue
    left=0
    [ "$5" -ne 0 ] && kill -s HUP "$pid" 2>/dev/null
  done
  return $left
}
trap stopping TERM INT

export HOME=/root USER=root LOGNAME=root LANG="${LANG:-C.UTF-8}"
for dir in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin /opt/conda/bin /opt/berth/bin; do
  case ":$PATH:" in *":$dir:"*) ;; *) PATH=$PATH:$dir ;; esac
done
export PATH
SHELL=$(command -v bash || command -v sh) && export SHELL
while IFS='=' read -r name value; do
  case $name in BERTH_INSTANCE_ID) BERTH_INSTANCE_ID=$value ;; BERTH_BASE_URL) BERTH_BASE_URL=$value ;; esac
done </etc/berth/env
export BERTH_INSTANCE_ID BERTH_BASE_URL
cd /root || exit 1

states=/var/lib/berth/instance
state=$states/${BERTH_INSTANCE_ID:?}
logs=/var/log/berth
run=/run/berth
# A first start: what a saved image carries of another instance's life is not ours.
[ -d "$state" ] || rm -rf "$states" "$logs"
mkdir -p "$state" "$logs" "$run"
# A full root disk keeps nobody out: what each start writes goes to memory then, and Jupyter's own passing files too.
has_room() {
  dd if=/dev/zero of="$1/.room" bs=1024 count=1024 2>/dev/null
  code=$?
  rm -f "$1/.room"
  return $code
}
if ! has_room "$run"; then
  run=/dev/shm/berth
  mkdir -p "$run"
  export JUPYTER_RUNTIME_DIR="$run/jupyter/runtime"
fi
chmod 0700 "$state" "$run"
# sftp-server, and others too, serve nobody whom this file doesn't know.
[ -e /etc/passwd ] || echo 'root:x:0:0:root:/root:/bin/sh' >/etc/passwd

# Runs a function beside us. Not with '&': a shell without job control makes background jobs ignore SIGINT, and that
# is inherited, so Ctrl-C would be dead in every ssh session, notebook terminal and kernel. So a process forks in the
# foreground, and its child ends the wait by killing it. The outermost shell is there to swallow the word "Killed".
beside() {
  (
    (
      read -r parent _ </proc/self/stat
      (
        kill -s KILL "$parent"
        exec 2>&9 9>&-
        "$@"
      )
      :
    )
    :
  ) 2>/dev/null
}

keep() {
  pause=1
  while :; do
    began=$(date +%s)
    "$@"
    code=$?
    [ $(($(date +%s) - began)) -ge 60 ] && pause=1
    echo "berth: $1 ended with $code, again in $pause s" >&2
    sleep $pause
    pause=$((pause < 30 ? pause * 2 : 30))
  done
}

# ---- ssh

# sshd gives its sessions a bare environment. They are to have what the image defines (PATH, CUDA, conda ...):
# commands by SetEnv, login shells also by a profile, since Debian's /etc/profile sets PATH anew.
session_environment() {
  (
    unset PWD OLDPWD SHLVL HOME USER LOGNAME SHELL TERM HOSTNAME _
    umask 077
    profile=/etc/profile.d/berth.sh
    mkdir -p /etc/profile.d && (export -p >$profile.new) 2>/dev/null && mv $profile.new $profile
    env | while IFS= read -r line; do
      case $line in
        *[\"\\]*) ;; # no way to write these in sshd_config that every version reads alike
        [A-Za-z_]*=*) printf ' "%s"' "$line" ;;
      esac
    done
  )
}

sshd_config() {
  cat <<END
Port 22
HostKey $state/ssh_host_ed25519_key
PidFile none
AuthorizedKeysFile /etc/berth/authorized_keys .ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
# the files of /etc/berth belong to whoever runs Berth outside, and all users in here are root anyway
StrictModes no
UseDNS no
AllowAgentForwarding yes
AllowTcpForwarding yes
PrintMotd no
PrintLastLog no
MaxSessions 100
MaxStartups 100:30:200
ClientAliveInterval 60
ClientAliveCountMax 60
Subsystem sftp internal-sftp
$1
$2
END
}

make_host_key() {
  if [ -s /etc/berth/ssh-host-key ]; then
    (umask 077 && cat /etc/berth/ssh-host-key >"$1") && ssh-keygen -y -f "$1" >"$1.pub" </dev/null && return
    rm -f "$1" "$1.pub"
  fi
  ssh-keygen -q -t ed25519 -N '' -C "$BERTH_INSTANCE_ID" -f "$1"
}

prepare_ssh() {
  key=$state/ssh_host_ed25519_key
  if [ ! -s "$key" ]; then
    rm -f "$key.new" "$key.new.pub"
    make_host_key "$key.new" && mv "$key.new.pub" "$key.pub" && mv "$key.new" "$key"
  fi
  mkdir -p /run/sshd /var/empty
  # without PAM, sshd refuses a locked root even by key; '*' is no password either, but not locked
  grep -qs '^root:!' /etc/shadow && sed -i 's/^root:!/root:*/' /etc/shadow
  # everybody comes from the engine's own address, so one stranger's failed logins must not shut all others out
  sshd_config "SetEnv$(session_environment)" 'PerSourcePenalties no' >"$run/sshd_config"
  # older sshd do not know these two: PerSourcePenalties came with 9.8, SetEnv with 7.8
  "$sshd" -t -f "$run/sshd_config" 2>/dev/null || sshd_config "SetEnv$(session_environment)" >"$run/sshd_config"
  "$sshd" -t -f "$run/sshd_config" 2>/dev/null || sshd_config >"$run/sshd_config"
}
# Its log goes to a file: strangers' tries would push what we say off the console.
ssh_server() { "$sshd" -D -e -f "$run/sshd_config" 2>&1 | bounded_log "$logs/sshd.log"; }

# ---- Docker, for an instance that has one: its daemon is beside us, and here is the folder with its socket

has_docker() { grep -qs ' /run/berth-docker ' /proc/self/mountinfo; }
link_docker() {
  link=/var/run/docker.sock
  if has_docker; then
    mkdir -p /var/run && rm -rf "$link" && ln -s /run/berth-docker/docker.sock "$link"
  elif [ "$(readlink "$link" 2>/dev/null)" = /run/berth-docker/docker.sock ]; then
    rm -f "$link" # a saved image brought it
  fi
}
# Somebody's init script may begin with it.
await_docker() {
  has_docker || return 0
  tries=150
  while [ ! -S /run/berth-docker/docker.sock ] && [ $tries -gt 0 ]; do
    tries=$((tries - 1))
    sleep 0.2 2>/dev/null || sleep 1
  done
}

# ---- the init script

init_script() {
  await_docker
  sed "s/$(printf '\r')\$//" /etc/berth/init-script >"$state/init-script" && chmod 0700 "$state/init-script"
  case $(head -n 1 "$state/init-script") in '#!'*) set -- ;; *) set -- "$SHELL" ;; esac
  {
    {
      "$@" "$state/init-script" </dev/null 8>&-
      code=$?
      echo "$code" >"$logs/init.exit.new" && mv "$logs/init.exit.new" "$logs/init.exit"
      echo "berth: init exit $code" >&8
    } 2>&1 | bounded_log "$logs/init.log"
  } 8>&1
}
# Only the one cat is held to 10 MiB (20480 blocks); the next takes the rest, so that the writer never meets a closed pipe.
bounded_log() {
  (trap '' XFSZ; ulimit -f 20480; exec cat >"$1" 2>/dev/null) && return
  echo '[berth: the log is full, what came after this is dropped]' >>"$1"
  cat >/dev/null
}

# ---- the notebook

# The secret goes by file: flags are seen in ps, the environment in every kernel. JUPYTER_CONFIG_PATH is read last, so it
# wins over a token or password that the image sets, while the user's own settings stay. Jupyter hands its own kind of
# token to the browser in every page; so where it can (Jupyter Server 2), an identity provider of ours asks for the
# secret in the header that the gateway adds, and no page holds it. What is older gets it as its token.
prepare_notebook() {
  mkdir -p "$run/jupyter"
  cat >"$run/jupyter/jupyter_server_config.py" <<'PY'
import hmac
with open("/etc/berth/notebook-token") as file:
    secret = "token " + file.read().strip()
try:
    from jupyter_server.auth.identity import IdentityProvider, User
except ImportError:
    c.ServerApp.token = secret[6:]
    c.ServerApp.password = ""
else:
    class GatewayIdentity(IdentityProvider):
        """Whoever the gateway let in is the owner."""
        def is_token_authenticated(self, handler):
            given = handler.request.headers.get("Authorization", "")
            return hmac.compare_digest(given.encode(), secret.encode())
        def get_user(self, handler):
            return User("owner") if self.is_token_authenticated(handler) else None
    c.ServerApp.identity_provider_class = GatewayIdentity
    c.IdentityProvider.token = ""
PY
  (umask 077 && echo "{\"NotebookApp\":{\"token\":\"$(cat /etc/berth/notebook-token)\",\"password\":\"\"}}" \
    >"$run/jupyter/jupyter_notebook_config.json")
}
notebook() {
  log=$logs/notebook.log
  mv -f "$log" "$log.1" 2>/dev/null
  true 2>/dev/null >"$log" || log=/dev/null
  # JupyterLab 3 and what came later read ServerApp, Notebook 6 reads NotebookApp; each skips the other's.
  apps='ServerApp NotebookApp'
  [ "${jupyter##*/}" != jupyter-notebook ] && command -v jupyter-server >/dev/null && apps=ServerApp
  set -- --ServerApp.root_dir=/root
  for app in $apps; do
    [ "$app" = ServerApp ] || set -- "$@" --NotebookApp.notebook_dir=/root
    set -- "$@" --$app.ip=0.0.0.0 --$app.port=8888 --$app.port_retries=0 --$app.base_url="$BERTH_BASE_URL" \
      --$app.allow_root=True --$app.open_browser=False --$app.allow_remote_access=True --$app.terminals_enabled=True
  done
  JUPYTER_CONFIG_PATH=$run/jupyter "$jupyter" "$@" >"$log" 2>&1
}

# ---- and now

sshd=$(command -v sshd)
jupyter=$(command -v jupyter-lab || command -v jupyter-notebook || command -v jupyter-server)
services="${sshd:+ ssh}${jupyter:+ notebook}"
echo "berth: services${services:- none}"
link_docker

# Sessions come without sshd too, and their login shells read the same profile.
if [ -n "$sshd" ]; then prepare_ssh; beside keep ssh_server; else session_environment >/dev/null; fi

if [ -s "$logs/init.exit" ]; then
  echo "berth: init exit $(cat "$logs/init.exit")"
elif [ -e "$state/init-started" ]; then
  echo 'berth: init lost'
elif [ -s /etc/berth/init-script ]; then
  : >"$state/init-started"
  echo 'berth: init started'
  beside init_script
else
  echo 'berth: init none'
fi

[ -z "$jupyter" ] || { prepare_notebook; beside keep notebook; }

# A shell runs its trap at once only while it waits for a job; waiting also reaps what is left to us as process 1.
while :; do
  sleep 86400 &
  wait $!
done
