alter table "instanceType" add column placement text;
