alter table payment add column "taxMicros" bigint not null default 0;
alter table "paymentRefund" add column "chargeMicros" bigint not null default 0;
alter table "paymentRefund" add column "chargeAtMs" bigint not null default 0;
update "paymentRefund" set "chargeMicros" = "askedMicros";
create table "paymentClaim" (
  provider text not null, id text not null, "intentId" text not null, kind text not null,
  "amountMicros" bigint not null, "hasBegun" integer not null, "endedAtMs" bigint,
  primary key (provider, id)
);
create index payment_claim_intent on "paymentClaim" (provider, "intentId");
