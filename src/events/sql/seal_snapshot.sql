SELECT pg_current_snapshot()::text, pg_current_xact_id()::text
