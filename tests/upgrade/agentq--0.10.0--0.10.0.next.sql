-- A step that stands for the next version, so that the way of an upgrade is walked before there is one: the tests and the
-- torture install it beside the real scripts. It does what a real step may do: a column more in the storage and in a table
-- of which sessions keep a copy, another comment, and a table that is new and whole.
ALTER TABLE agentq_internal.job ADD COLUMN next_note text;
COMMENT ON COLUMN agentq_internal.job.next_note IS 'What the next version keeps of a job.';
ALTER TABLE agentq.queue ADD COLUMN next_limit integer;
COMMENT ON COLUMN agentq.queue.next_limit IS 'What the next version keeps of a queue.';
COMMENT ON FUNCTION agentq.fn_version IS 'Version of the library that is loaded, as the next version says it.';
-- include: tests/upgrade/next_table.sql
