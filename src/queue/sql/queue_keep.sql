UPDATE agentq.queue SET keep_seconds = ($2->>'keep_seconds')::bigint WHERE queue = $1
RETURNING $3 || jsonb_build_object('keep_seconds', keep_seconds)
