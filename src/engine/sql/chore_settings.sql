SELECT every_seconds::double precision, enabled FROM agentq.engine_chore WHERE chore = $1
