SELECT to_jsonb(e) - 'lease_token' || '{"ok": true, "code": "found"}' FROM agentq.effect e WHERE effect_id = $1
