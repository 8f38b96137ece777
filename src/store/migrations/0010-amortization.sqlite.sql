create table amortization (
  id integer primary key autoincrement, "accountId" text not null, "subjectId" text not null,
  "amountMicros" bigint not null, "priceMicros" bigint not null, "priceUnit" text not null,
  "fromMs" bigint, "untilMs" bigint, "endMs" bigint
);
create index amortization_subject on amortization ("subjectId", id);
create index amortization_account on amortization ("accountId", "endMs");
alter table entry add column "isAmortized" integer not null default 0;
