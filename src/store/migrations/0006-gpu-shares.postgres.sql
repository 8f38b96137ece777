update account set usage = jsonb_set(usage::jsonb, '{gpus}', to_jsonb((usage::jsonb ->> 'gpus')::bigint * 1000))::text
  where usage::jsonb ->> 'gpus' is not null;
