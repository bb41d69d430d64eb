-- name: extension_relations()
-- Tables with their partitions, views and sequences. An index is locked by nobody who has not locked its table.
SELECT oid FROM pg_catalog.pg_class
WHERE relkind IN ('r', 'p', 'v', 'S') AND relnamespace IN (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname IN ('agentq', 'agentq_internal'))
ORDER BY oid
