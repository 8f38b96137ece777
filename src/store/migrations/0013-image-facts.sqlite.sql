alter table image add column facts text;
