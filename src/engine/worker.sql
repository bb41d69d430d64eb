-- name: extension_version()
SELECT extversion FROM pg_catalog.pg_extension
WHERE extname = 'agentq'
  AND NOT (SELECT datistemplate FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
