WITH seen AS MATERIALIZED (
    SELECT name, key FROM agentq.signal_channel WHERE (name, key) > ($1, $2) ORDER BY name, key LIMIT $3
), old AS MATERIALIZED (
    SELECT c.name, c.key FROM seen JOIN agentq.signal_channel c ON c.name = seen.name AND c.key = seen.key
    FOR UPDATE OF c SKIP LOCKED
)
SELECT seen.name, seen.key, old.name IS NOT NULL
FROM seen LEFT JOIN old ON old.name = seen.name AND old.key = seen.key
ORDER BY seen.name, seen.key
