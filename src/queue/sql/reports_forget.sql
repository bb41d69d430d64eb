DELETE FROM agentq.limit_rule
WHERE description = 'made by fn_limit_report' AND starts_with(limit_key, left($1, -1))
  AND max_concurrent IS NULL AND max_pending IS NULL AND rate IS NULL AND max_age_seconds IS NULL
