/** Figures of instances: the samples of the last hours by the minute, for a server that starts, and the minutes of each by the hour. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const metrics: Migration = {
  name: '0005-metrics',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql.raw('text') : sql.raw('text collate "C"');
    const number = kind === 'sqlite' ? sql.raw('integer') : sql.raw('bigint');
    const bytes = kind === 'sqlite' ? sql.raw('blob') : sql.raw('bytea');
    await sql`create table "metricMinute" (
      "atMs" ${number} not null, part ${number} not null, body ${bytes} not null, primary key ("atMs", part))`.execute(
      db,
    );
    await sql`create table "metricHour" (
      "instanceId" ${text} not null, "atMs" ${number} not null, body ${bytes} not null, primary key ("instanceId", "atMs"))`.execute(
      db,
    );
    await sql`create index "metric_hour_age" on "metricHour" ("atMs")`.execute(db);
  },
};
