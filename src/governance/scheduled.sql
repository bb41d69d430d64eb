-- name: proposal_open(command_id uuid)
SELECT command_id FROM agentq.command WHERE command_id = $1 AND state IN ('pending', 'approved', 'auto_approved')
