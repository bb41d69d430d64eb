SELECT signal_id, taken_by FROM agentq.signal WHERE wake_pending ORDER BY signal_id LIMIT $1 FOR UPDATE SKIP LOCKED
