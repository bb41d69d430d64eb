UPDATE agentq.signal SET taken_by = $2, taken_at = $3, wake_pending = $4 WHERE signal_id = $1
