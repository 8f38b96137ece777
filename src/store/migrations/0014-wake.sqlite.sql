alter table instance add column wake text not null default '{}';
