update account set usage = json_set(usage, '$.gpus', (usage ->> '$.gpus') * 1000)
  where usage ->> '$.gpus' is not null;
