-- name: is_vacuumed(relation oid)
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
               WHERE l.relation = $1 AND l.granted AND a.backend_type = 'autovacuum worker')
