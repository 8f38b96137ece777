#!/bin/sh
# Entry point of every container, whatever the image: starts ssh, the init script and a notebook.
#
# Plain POSIX sh (tested with dash, busybox ash and bash), as root. Berth writes /etc/berth,
# read-only here:
#   init-script      runs once
#   start-command    runs at each start; both scripts may be empty
#   authorized_keys  replaced while the container runs
#   notebook-token
#   jupyter-config   part of this script: images/jupyter_server_config.py
#   name             of the instance, short, for prompts
#   env              lines `export NAME='value'`: the instance's variables, secrets among them
#   ssh-host-key     used by sshd if the instance has no host key yet
#   networks         part of this script for ca.pem and apt-mirror
# Stored on the root disk, so kept over stop and start:
#   /var/lib/berth/instance/<id>/  host key, marker of the init script. The id in the path gives an
#                                  instance made from a saved image its own host key and first start
#   /var/log/berth/                init.log, start.log, notebook.log, exit codes of both scripts,
#                                  the last line about the notebook
# Secrets stay in /etc/berth and in memory: an image saved from the root disk must contain none.
# Berth reads these lines from stdout:
#   berth: services ssh notebook | none
#   berth: notebook starting | ready | failed N [last line of its log]
#   berth: notebook ended N SECOND KERNELS [last line]   it was ready; KERNELS ended with it
#   berth: init none | started | exit N [failed command] | lost
#   berth: start started | exit N [failed command]
# SIGTERM stops everything in the container and exits 0 within five seconds.

umask 022
exec 9>&2
stopping() {
  trap '' TERM INT HUP
  # -1 names every process of the container, sessions of sshd and background programs of users
  # included. Only a pid namespace makes that safe; without one, 0 names the process group.
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
# Interactive shells ignore SIGTERM: processes on a terminal get SIGHUP, as when a terminal closes.
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
# Installers of tools, such as 'uv tool install' and 'pip install --user', use ~/.local/bin.
for dir in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin /opt/conda/bin /opt/berth/bin ~/.local/bin; do
  case ":$PATH:" in *":$dir:"*) ;; *) PATH=$PATH:$dir ;; esac
done
export PATH
SHELL=$(command -v bash || command -v sh) && export SHELL
cd /root || exit 1
# This script has the image's environment. Variables of the instance are for the programs it starts:
# here they could replace variables of its own.
with_environment() (. /etc/berth/env && exec "$@")
BERTH_INSTANCE_ID=$(. /etc/berth/env && echo "$BERTH_INSTANCE_ID")
BERTH_BASE_URL=$(. /etc/berth/env && echo "$BERTH_BASE_URL")

states=/var/lib/berth/instance
state=$states/${BERTH_INSTANCE_ID:?}
logs=/var/log/berth
run=/dev/shm/berth
# A first start: what a saved image carries of another instance's life is not ours.
[ -d "$state" ] || rm -rf "$states" "$logs"
mkdir -p "$state" "$logs" "$run"
{ rm -rf /run/berth && mkdir -p /run/berth && ln -s /etc/berth/notice.json /run/berth; } 2>/dev/null || :
# On a full root disk, Jupyter's runtime files go to memory, so that the notebook still starts.
has_room() {
  dd if=/dev/zero of="$1/.room" bs=1024 count=1024 2>/dev/null
  code=$?
  rm -f "$1/.room"
  return $code
}
has_room /root || export JUPYTER_RUNTIME_DIR="$run/jupyter/runtime"
chmod 0700 "$state" "$run"
# sftp-server and other programs serve only users of this file.
[ -e /etc/passwd ] || echo 'root:x:0:0:root:/root:/bin/sh' >/etc/passwd

# Runs a function in the background, without '&': a shell without job control makes background jobs
# ignore SIGINT, and children inherit that, so Ctrl-C would not work in ssh sessions, terminals and
# kernels. Instead a process forks in the foreground, and its child ends the wait by killing it. The
# outermost shell swallows the word "Killed".
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

# Networks of the operator: images/networks.sh.
[ ! -r /etc/berth/networks ] || . /etc/berth/networks

# ---- ssh

# sshd gives its sessions an empty environment. A profile adds the image's (PATH, CUDA, conda ...) and
# the instance's. Login shells read it after Debian's /etc/profile, which overwrites PATH. For a
# command, bash reads it as BASH_ENV, once, and then the files that it reads by itself if SHLVL is 0.
profile=/etc/profile.d/berth.sh
session_profile() (
  unset_own_variables
  umask 077
  mkdir -p /etc/profile.d
  {
    cat <<END
berth_command=
if [ "\${BASH_ENV-}" = $profile ]; then
  unset BASH_ENV
  SHLVL=1
  shopt -q login_shell || berth_command=1
fi
END
    export -p
    cat <<'END'
[ ! -r /etc/berth/env ] || . /etc/berth/env
# The prompt names the instance. Bash does so in place of the host name, so that colors and the
# owner's own prompt stay.
if [ -r /etc/berth/name ]; then
  read -r BERTH_NAME </etc/berth/name
  if [ -n "${BASH_VERSION-}" ]; then
    [ -n "${PROMPT_COMMAND-}" ] || PROMPT_COMMAND='PS1=${PS1//\\[hH]/$BERTH_NAME}'
    export BERTH_NAME PROMPT_COMMAND
  else
    PS1="root@$BERTH_NAME:"'$PWD# '
  fi
fi
if [ -n "$berth_command" ]; then
  [ ! -r /etc/bash.bashrc ] || . /etc/bash.bashrc
  [ ! -r ~/.bashrc ] || . ~/.bashrc
fi
unset berth_command
END
  } >$profile.new && mv $profile.new $profile
) 2>/dev/null
unset_own_variables() { unset PWD OLDPWD SHLVL HOME USER LOGNAME SHELL TERM HOSTNAME _; }

# Variables for SetEnv. Shells other than bash read no file for a command: they get the instance's
# variables here, without those of several lines, which sshd_config cannot express.
session_variables() (
  berth_shell=$(sed -n 's/^root:.*://p' /etc/passwd)
  [ "${berth_shell##*/}" = bash ] || . /etc/berth/env
  unset_own_variables
  [ "${berth_shell##*/}" != bash ] || export SHLVL=1 BASH_ENV=$profile
  berth_newline='
'
  for berth_name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    eval "berth_value=\${$berth_name-\$berth_newline}"
    case $berth_value in
      *"$berth_newline"*) ;;
      *) printf '%s=%s\n' "$berth_name" "$berth_value" ;;
    esac
  done | if [ "$1" = escaped ]; then sed 's/["\\]/\\&/g'; else grep -v '["\\]'; fi | sed 's/.*/ "&"/' | tr -d '\n'
)

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
# the files of /etc/berth belong to the user that runs Berth; all users of the container are root
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

# sshd refuses root with a shell that does not run or an account that has expired and, without PAM,
# a locked one even by key. '*' allows no password and is not locked.
repair_root() {
  shell=$(sed -n 's/^root:.*://p' /etc/passwd)
  case ${shell:=/bin/sh} in */nologin | */false) runs= ;; *) runs=$(command -v "$shell") ;; esac
  [ -n "$runs" ] || sed -i "s|^\(root:.*:\).*|\1$SHELL|" /etc/passwd
  [ -n "$runs" ] || echo "berth: the shell of root was $shell, which lets nobody in: it is $SHELL"
  grep -qs '^root:!' /etc/shadow && sed -i 's/^root:!/root:*/' /etc/shadow
  grep -Eqs '^root:([^:]*:){6}[0-9]' /etc/shadow || return 0
  sed -i 's/^\(root:.*:\)[0-9]*:/\1:/' /etc/shadow
  echo 'berth: the account of root had expired: it no longer does'
}
prepare_ssh() {
  key=$state/ssh_host_ed25519_key
  if [ ! -s "$key" ]; then
    rm -f "$key.new" "$key.new.pub"
    make_host_key "$key.new" && mv "$key.new.pub" "$key.pub" && mv "$key.new" "$key"
  fi
  mkdir -p /run/sshd /var/empty
  repair_root
}
# Writes sshd's configuration with two lines more, if this version of sshd reads them.
configure_ssh() {
  (umask 077 && mkdir -p "$run" && sshd_config "$@" >"$run/sshd_config") &&
    "$sshd" -t -f "$run/sshd_config" 2>/dev/null
}
ssh_server() {
  # Older versions of sshd lack SetEnv (7.8), and escapes in it (8.7).
  quotes=plain
  configure_ssh 'SetEnv "A=\"b"' && quotes=escaped
  variables="SetEnv$(session_variables $quotes)"
  # All clients come from the engine's address: failed logins of one must not lock out the others.
  # Older versions lack PerSourcePenalties (9.8).
  configure_ssh "$variables" 'PerSourcePenalties no' || configure_ssh "$variables" ||
    configure_ssh 'PerSourcePenalties no' || configure_ssh
  # The log goes to a file: login attempts of strangers would push Berth's lines off the console.
  "$sshd" -D -e -f "$run/sshd_config" 2>&1 | bounded_log "$logs/sshd.log"
}

# ---- Docker, for an instance with a daemon beside it: the folder of the socket is mounted here

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

# ---- the init script and the start command

scripts() {
  [ "$1" != init ] || { await_docker && run_script init init-script; }
  [ -s /etc/berth/start-command ] || return
  mv -f "$logs/start.log" "$logs/start.log.1" 2>/dev/null
  echo 'berth: start started'
  run_script start start-command
}
# Runs the script $1 of the control file $2. Reports exit code, last failed command and output.
run_script() {
  name=$1 script=$state/$2
  # A pipe with a name: the script's end does not wait for programs that it left behind.
  pipe=$run/$name.pipe
  (umask 077 && mkdir -p "$run" && rm -f "$pipe" "$script.failed" && mkfifo "$pipe" && trace >"$run/trace.sh")
  bounded_log "$logs/$name.log" <"$pipe" &
  sed "s/$(printf '\r')\$//" "/etc/berth/$2" >"$script" && chmod 0700 "$script"
  interpreter=$(sed -n '1s/^#! *//p' "$script")
  set -- ${interpreter:-"$SHELL"} # words
  case " $*" in
    *[!a-z]sh | *[!a-z]ash | *[!a-z]dash | *[!a-z]bash | *[!a-z]sh\ -* | *[!a-z]bash\ -*)
      set -- "$@" -c ". $run/trace.sh; . \"\$0\"" "$script"
      ;;
    *) set -- "$script" ;;
  esac
  with_environment "$@" </dev/null >"$pipe" 2>&1
  code=$?
  sleep 0.1 2>/dev/null || sleep 1 # for the log's last lines
  how_failed | tr -d '\000-\037' | cut -c 1-500 >"$logs/$name.failed"
  echo "$code" >"$logs/$name.exit.new" && mv "$logs/$name.exit.new" "$logs/$name.exit"
  said_exit "$name"
}
said_exit() {
  failed=$(cat "$logs/$1.failed" 2>/dev/null)
  echo "berth: $1 exit $(cat "$logs/$1.exit")${failed:+ $failed}"
}
# Sourced before a script by its shell. bash knows each failed command; other shells know the line
# of the last one, if they know lines.
trace() {
  cat <<'END'
if [ -n "${BASH_VERSION-}" ]; then
  berth_failed() {
    [ -n "$4" ] || return 0
    local berth_text="line $1"
    [ "$4" = "$0" ] || berth_text="$berth_text of $4"
    printf -v berth_text '%s ended with code %s: %.200s' "$berth_text" "$2" "${3%%[[:cntrl:]]*}"
    echo "berth: $berth_text" >&2
    echo "$berth_text" >|"$0.failed"
    return 0
  }
  trap 'berth_failed "$LINENO" "$?" "$BASH_COMMAND" "${BASH_SOURCE-}"' ERR
else
  trap 'berth_code=$?; [ $berth_code -eq 0 ] || [ -z "${LINENO-}" ] ||
    echo "line $LINENO ended with code $berth_code" >|"$0.failed"' EXIT
fi
END
}
how_failed() {
  log=$logs/$name.log
  if [ -s "$script.failed" ]; then
    cat "$script.failed"
    tail -c 20000 "$log" | sed -n '/^+/d;/^berth: line [0-9].* ended with code /{x;p;x;d;};h' | tail -n 1 | sed 's/^./: &/'
  elif [ "$code" -ne 0 ]; then
    tail -c 1000 "$log" | tail -n 1 | sed 's/^./last output: &/'
  fi
}
# The limit of 10 MiB (20480 blocks) holds for the first cat only. The second reads the rest: the
# writer never meets a closed pipe.
bounded_log() {
  (trap '' XFSZ; ulimit -f 20480; exec cat >"$1" 2>/dev/null) && return
  echo '[berth: the log is full, what came after this is dropped]' >>"$1"
  cat >/dev/null
}

# ---- the notebook

# Flags win over each file, and the files here, the first of JUPYTER_CONFIG_PATH, over each other
# file: what they do not set stays as the image or the user has it. jupyter_server_config.py is not
# read by Notebook 6.
prepare_notebook() {
  (umask 077 && mkdir -p "$run/jupyter")
  cat /etc/berth/jupyter-config >"$run/jupyter/jupyter_server_config.py"
  (umask 077 && cat >"$run/jupyter/jupyter_notebook_config.json") <<JSON
{"NotebookApp": {"token": "$(cat /etc/berth/notebook-token)", "password": "", "ssl_options": {}},
 "FileContentsManager": {"root_dir": "/root"}, "LargeFileManager": {"root_dir": "/root"},
 "MappingKernelManager": {"buffer_offline_messages": false}}
JSON
}
say_notebook() {
  echo "berth: notebook $*"
  echo "$*" >"$logs/notebook.state"
} 2>/dev/null
listens() { grep -Eqs '^ *[0-9]+: [0-9A-F]+:22B8 [0-9A-F]+:[0-9A-F]+ 0A ' /proc/net/tcp /proc/net/tcp6; }
await_notebook() {
  until listens; do sleep 0.2 2>/dev/null || sleep 1; done
  : >"$run/notebook.ready"
  say_notebook ready
}
# Ends kernels of the server $1, which has ended: no other server finds them, and they would go on
# for ever. Counts them by their files, since some end by themselves. A kernel leads a process group,
# with which Jupyter ends it, too. A process that berth_lab.py prepared has the server's environment.
end_kernels() {
  kernels=0 groups=
  runtime=$(. /etc/berth/env; echo "${JUPYTER_RUNTIME_DIR:-${JUPYTER_DATA_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/jupyter}/runtime}")
  for file in "$runtime"/kernel-*-*.json; do
    [ "$file" -nt "$run/notebook.pid" ] && kernels=$((kernels + 1))
  done
  for proc in /proc/[0-9]*; do
    pid=${proc#/proc/}
    read -r stat 2>/dev/null <"$proc/stat" || continue
    # shellcheck disable=SC2086  # after the name: state ppid pgrp
    set -- "$1" ${stat##*) }
    [ "$4" = "$pid" ] && [ "$2" != Z ] || continue
    case $(tr '\000' ' ' <"$proc/cmdline") in
      *kernel-*.json*) tr '\000' '\n' <"$proc/environ" | grep -qx "JPY_PARENT_PID=$1" || continue ;;
      *' -m berth_lab '*) ;;
      *) continue ;;
    esac
    groups="$groups -$pid"
  done 2>/dev/null
  for signal in ${groups:+TERM KILL}; do
    # shellcheck disable=SC2086  # a list
    kill -s $signal -- $groups 2>/dev/null && sleep 1
  done
}
notebook() {
  log=$logs/notebook.log
  mv -f "$log" "$log.1" 2>/dev/null
  true 2>/dev/null >"$log" || log=/dev/null
  # JupyterLab 3 and later read ServerApp, Notebook 6 reads NotebookApp; each ignores the other.
  apps='ServerApp NotebookApp'
  [ "${jupyter##*/}" != jupyter-notebook ] && command -v jupyter-server >/dev/null && apps=ServerApp
  set -- --ServerApp.root_dir=/root --ServerApp.preferred_dir=/root --ServerApp.sock=
  for app in $apps; do
    [ "$app" = ServerApp ] || set -- "$@" --NotebookApp.notebook_dir=/root
    set -- "$@" --$app.ip=0.0.0.0 --$app.port=8888 --$app.port_retries=0 --$app.base_url="$BERTH_BASE_URL" \
      --$app.allow_root=True --$app.open_browser=False --$app.allow_remote_access=True --$app.terminals_enabled=True \
      --$app.certfile= --$app.keyfile= --$app.client_ca= --$app.websocket_url=
  done
  prepare_notebook
  rm -f "$run/notebook.ready"
  [ $failures -gt 0 ] || say_notebook starting
  # A program of somebody else on the port proves nothing.
  await=
  listens || { await_notebook & await=$!; }
  notebook_server "$run" "$jupyter" "$@" >"$log" 2>&1
  code=$?
  ended=$(date +%s)
  [ -z "$await" ] || { kill "$await"; wait "$await"; } 2>/dev/null
  line=$(tail -c 3000 "$log" | tr '\001-\011\013-\037' ' ' | grep '[^ ]' | grep -v 'Parent appears' | tail -n 1 | cut -c 1-300)
  end_kernels "$(cat "$run/notebook.pid")"
  if [ -e "$run/notebook.ready" ]; then
    failures=0 told=
    say_notebook ended "$code" "$ended" "$kernels" "$line"
  else
    failures=$((failures + 1))
    [ $failures -ne 2 ] || fall_back
    [ $failures -lt 2 ] || [ "$told" = "$code $line" ] || { told="$code $line" && say_notebook failed "$told"; }
  fi
  return "$code"
}
# The variables of the instance may replace those of this script.
notebook_server() (
  read -r pid _ </proc/self/stat && echo "$pid" >"$1/notebook.pid"
  . /etc/berth/env
  export JUPYTER_CONFIG_PATH="$1/jupyter${JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}"
  shift
  exec "$@"
)
# One that was installed over the image's and did not start twice is replaced.
fall_back() {
  [ "$jupyter" != $jupyter_of_image ] && [ -x $jupyter_of_image ] || return
  jupyter=$jupyter_of_image failures=1
  echo "berth: the installed Jupyter does not start, the image's runs: $line"
}
jupyter_of_image=/opt/jupyter/start # of the default image

# ---- and now

sshd=$(command -v sshd)
jupyter=$(command -v jupyter-lab || command -v jupyter-notebook || command -v $jupyter_of_image || command -v jupyter-server)
services="${sshd:+ ssh}${jupyter:+ notebook}"
echo "berth: services${services:- none}"
link_docker

# First: Jupyter takes longer to answer than ssh.
failures=0 told= first=
[ -z "$jupyter" ] || beside keep notebook

# Sessions of the built-in ssh server have login shells that read the same profile.
session_profile
if [ -n "$sshd" ]; then prepare_ssh; beside keep ssh_server; fi

if [ -s "$logs/init.exit" ]; then
  said_exit init
elif [ -e "$state/init-started" ]; then
  echo 'berth: init lost'
elif [ -s /etc/berth/init-script ]; then
  : >"$state/init-started"
  echo 'berth: init started'
  first=init
else
  echo 'berth: init none'
fi
rm -f "$logs/start.exit"
beside scripts "$first"

# A shell runs its trap at once only while it waits for a job. Waiting also reaps orphans.
while :; do
  sleep 86400 &
  wait $!
done
