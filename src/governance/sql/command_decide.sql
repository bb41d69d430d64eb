UPDATE agentq.command
SET decision = $2, state = $2, decided_by = $3, reason = $4, decided_at = $5, updated_at = $5, mission_id = $6,
    approved_at = CASE WHEN $6 IS NOT NULL THEN $5 END, policy_snapshot = $7
WHERE command_id = $1
