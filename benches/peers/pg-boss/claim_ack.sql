WITH next AS (
    SELECT id, singleton_key, policy
    FROM pgboss.job
    WHERE name = 'k'
        AND state < 'active'
        AND start_after < now()
    ORDER BY priority DESC, created_on, id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), grouped AS (
    SELECT
        n.id,
        n.policy AS grouped_policy,
        row_number() OVER (
            PARTITION BY CASE
                WHEN 1 > 1 AND n.policy IN ('singleton', 'stately') THEN n.singleton_key
                ELSE n.id::text
            END
        ) AS row_number
    FROM next n
), taken AS (
    UPDATE pgboss.job j SET
        state = 'active',
        started_on = now(),
        retry_count = CASE WHEN started_on IS NOT NULL THEN retry_count + 1 ELSE retry_count END
    FROM grouped
    WHERE name = 'k' AND j.id = grouped.id
        AND (
            (grouped.grouped_policy IN ('singleton', 'stately') AND grouped.row_number = 1)
            OR COALESCE(grouped.grouped_policy, '') NOT IN ('singleton', 'stately')
        )
    RETURNING j.id, name, data, EXTRACT(epoch FROM expire_in) AS "expireInSeconds"
)
SELECT count(*) AS found, array_agg(id) AS ids, max(data::text) AS work FROM taken \gset
\if :found
WITH results AS (
    UPDATE pgboss.job
    SET completed_on = now(),
        state = 'completed',
        output = NULL::jsonb
    WHERE name = 'k'
        AND id IN (SELECT UNNEST(:ids::uuid[]))
        AND state = 'active'
    RETURNING *
)
SELECT COUNT(*) FROM results;
\endif
