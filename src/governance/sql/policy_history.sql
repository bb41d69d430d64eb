SELECT jsonb_build_object('ok', true, 'code', 'found', 'key', $1, 'versions', jsonb_agg(jsonb_build_object(
           'version', version, 'value', value, 'reason', reason, 'set_at', set_at, 'set_by', set_by) ORDER BY version DESC))
FROM (SELECT * FROM agentq.policy_version WHERE key = $1 ORDER BY version DESC LIMIT $2) v
HAVING count(*) > 0
