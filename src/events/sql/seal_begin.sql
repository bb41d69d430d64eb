INSERT INTO agentq.event_seal (one) SELECT true WHERE NOT EXISTS (SELECT FROM agentq.event_seal) ON CONFLICT (one) DO NOTHING
