-- name: hook_owner(schema text, function text)
SELECT p.proowner FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = $1::name AND p.proname = $2::name AND p.proargtypes = '3802 25'::oidvector
