alter table instance add column wake text collate "C" not null default '{}';
