-- Whoever puts a row there.
CREATE TRIGGER access_grant_apply AFTER INSERT OR UPDATE ON agentq.access_grant
    FOR EACH ROW EXECUTE FUNCTION agentq_internal.fn_access_apply();
COMMENT ON TRIGGER access_grant_apply ON agentq.access_grant IS 'Gives the privileges of the level.';
