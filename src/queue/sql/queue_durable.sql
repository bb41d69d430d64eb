UPDATE agentq.queue SET durable_claims = coalesce(($2->>'durable_claims')::boolean, true) WHERE queue = $1
RETURNING $3 || jsonb_build_object('durable_claims', durable_claims)
