UPDATE agentq.signal SET wake_pending = false WHERE signal_id = $1
