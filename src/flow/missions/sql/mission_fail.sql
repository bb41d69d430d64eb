UPDATE agentq.mission SET failed_step = coalesce(failed_step, $2), last_error = coalesce(last_error, nullif($3, ''), 'a step failed')
WHERE mission_id = $1 AND status <> 'cancelling'
