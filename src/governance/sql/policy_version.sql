SELECT value, version, set_at, set_by,
       jsonb_build_object('ok', true, 'code', 'found', 'key', key, 'version', version, 'value', value,
           'updated_at', set_at, 'updated_by', set_by, 'reason', reason)
FROM agentq.policy_version WHERE key = $1 AND version = $2
