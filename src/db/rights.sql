-- name: extension_owner()
SELECT extowner FROM pg_catalog.pg_extension WHERE extname = 'agentq'
