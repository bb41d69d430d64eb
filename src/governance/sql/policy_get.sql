SELECT value, version, updated_at, updated_by,
       jsonb_build_object('ok', true, 'code', 'found', 'key', key, 'version', version, 'value', value,
           'updated_at', updated_at, 'updated_by', updated_by)
FROM agentq.policy WHERE key = $1
