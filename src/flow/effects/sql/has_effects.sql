SELECT to_regclass('agentq.effect_drift') IS NOT NULL
