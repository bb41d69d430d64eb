WITH old AS MATERIALIZED (
    SELECT job_id, effect_type, drift FROM agentq.effect_drift
    WHERE job_id <= $1 AND found_at < $3
    ORDER BY job_id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM agentq.effect_drift d USING old
    WHERE d.job_id = old.job_id AND d.effect_type = old.effect_type AND d.drift = old.drift
    RETURNING d.job_id
)
SELECT count(*) FROM gone
