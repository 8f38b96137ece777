/**
 * # Shell scripts for the files of a disk
 *
 * They run where the disk is mounted, in POSIX shells with the tools of GNU or BusyBox. The first
 * argument is the disk's folder, the others follow each script's comment; names are arguments,
 * never part of a script. Instances may swap folders for links at any time. So a script changes its
 * working directory name by name, and compares the kernel's path of it with the path that it meant:
 * from then on the directory is held by the process, whatever its name refers to. A file is opened,
 * and its path compared as well.
 *
 * A refusal is exit code 70 and a last line of stderr: `fault`, and its words (`shell-files.ts`).
 */

export const FAULT_CODE = 70;

/** Name of an upload in the disk's top folder until it is complete; never listed. */
export const UPLOAD_PREFIX = '.berth-upload.';

const PRELUDE = String.raw`
set -f
umask 022
export LC_ALL=C TZ=UTC
[ -d /run/berth-files ] && touch /run/berth-files/used
fault() { printf 'fault %s\n' "$*" >&2; exit 70; }
kind() {
  if [ -L "$1" ]; then kind=link
  elif [ -d "$1" ]; then kind=folder
  elif [ -f "$1" ]; then kind=file
  elif [ -e "$1" ]; then kind=other
  else kind=none; fi
}
is() { [ "$1" = "$2
x" ]; }
at() { is "$(readlink /proc/self/cwd; echo x)" "$here" || fault changed; }
depth=0
make=
enter() {
  depth=$((depth + 1))
  kind "./$1"
  if [ $kind = none ] && [ "$make" ]; then mkdir -m 755 "./$1"; kind "./$1"; fi
  [ $kind != none ] || fault missing folder $depth
  [ $kind = folder ] || fault wrongKind folder $depth $kind
  cd -P "./$1" || fault changed
  here=$here/$1
  at
}
cd -P "$1" || exit
shift
here=$(readlink /proc/self/cwd; echo x)
here=${'$'}{here%?x}
top=$here
`;

const script = (text: string): string => PRELUDE + text.trimStart();

/** Arguments: names of the folder. Prints `./name` of each entry, NUL-terminated. */
export const LIST_NAMES = script(String.raw`
for name; do enter "$name"; done
find . ! -name . -prune -print0 2>/dev/null
exit 0
`);

/** Arguments: names of the folder. Input: entries as above. Prints `entryFormat` of each. */
export const STAT_NAMES = script(String.raw`
for name; do enter "$name"; done
xargs -0 stat -c '%f %s %y %n/' 2>/dev/null
exit 0
`);

/** Arguments: names of the folder. */
export const MAKE_FOLDER = script(String.raw`
make=1
for name; do enter "$name"; done
sync . 2>/dev/null
exit 0
`);

/** Enters the parent of the last argument, and leaves the last as the only one. */
const ENTER_PARENT = String.raw`
while [ $# -gt 1 ]; do enter "$1"; shift; done
kind "./$1"
`;

/** Arguments: names of the file. Prints its state, then the bytes that a line of input asks for. */
export const READ_FILE = script(String.raw`${ENTER_PARENT}
[ $kind != none ] || fault missing target
[ $kind = file ] || fault wrongKind target $kind
command exec 3< "./$1" || fault changed
is "$(readlink /proc/self/fd/3; echo x)" "$here/$1" && [ -f /proc/self/fd/3 ] || fault changed
stat -L -c '%s %i %y %z' /proc/self/fd/3
read -r from count || exit 0
exec dd if=/proc/self/fd/3 bs=262144 skip="$from" count="$count" iflag=skip_bytes,count_bytes 2>/dev/null
`);

/**
 * Arguments: token, `new` or nothing, names of the file. Prints the free blocks and their size; a
 * line of input starts the upload, which is the rest of the input. An upload that was cut looks
 * complete here: only `COMMIT_UPLOAD` gives it its name. After a failure the rest is read and
 * dropped: Kubernetes reports no end of a command while input waits.
 */
export const RECEIVE_UPLOAD = script(String.raw`
token=$1 new=$2
shift 2
${ENTER_PARENT}
[ $kind = none ] || [ $kind = file ] || fault wrongKind target $kind
[ $kind = none ] || [ ! "$new" ] || fault exists
stat -f -c '%a %S' .
read -r go || exit 0
cd -P "$top" && set -C && cat > "./.berth-upload.$token" && sync "./.berth-upload.$token" && exit
cat >/dev/null
exit 1
`);

/** Arguments: token, size, `new` or nothing, names of the file. Prints the file's state. */
export const COMMIT_UPLOAD = script(String.raw`
token=$1 size=$2 new=$3
shift 3
staging=$top/.berth-upload.$token
command exec 3< "$staging" || exit
is "$(readlink /proc/self/fd/3; echo x)" "$staging" || exit 1
[ "$(stat -L -c %s /proc/self/fd/3)" = "$size" ] || exit 1
${ENTER_PARENT}
[ $kind = none ] || [ $kind = file ] || fault wrongKind target $kind
existed=$kind
if [ "$new" ]; then
  ln -T "$staging" "./$1" || { at; kind "./$1"; [ $kind = none ] || fault exists; exit 1; }
  rm -f "$staging"
else
  mv -f -T "$staging" "./$1" || { at; kind "./$1"; [ $kind != folder ] || fault wrongKind target folder; exit 1; }
fi
sync . 2>/dev/null
stat -L -c "%s %i %y %z $existed" /proc/self/fd/3
`);

/** Arguments: token, or `*` for all uploads. */
export const DISCARD_UPLOADS = script(String.raw`
find . ! -name . -prune -name ".berth-upload.$1" -exec rm -rf {} +
`);

/** Arguments: `all` or nothing, names of the entry. */
export const REMOVE_ENTRY = script(String.raw`
all=$1
shift
${ENTER_PARENT}
[ $kind != none ] || fault missing target
if [ $kind != folder ]; then rm -f "./$1" || fault changed
elif [ "$all" ]; then rm -rf "./$1" || { at; exit 1; }
else rmdir "./$1" || { at; kind "./$1"; [ $kind != folder ] || fault notEmpty; fault changed; }
fi
sync . 2>/dev/null
exit 0
`);

/** Prints size in KiB and path of all entries two levels deep. */
export const LARGEST_ENTRIES = script(String.raw`
exec du -axk -d 2 .
`);
