-- Who may do what. A level is a list of privileges; fn_access_grant hands one to a role. Nothing is
-- for PUBLIC.
CREATE TABLE agentq.access_rule (
    level     text NOT NULL,
    privilege text NOT NULL,
    object    name NOT NULL,
    CONSTRAINT access_rule_pkey PRIMARY KEY (level, privilege, object),
    CONSTRAINT access_rule_level_check CHECK (level IN ('producer', 'worker', 'operator', 'reader')),
    CONSTRAINT access_rule_privilege_check CHECK (privilege IN ('EXECUTE', 'SELECT', 'INSERT', 'UPDATE', 'DELETE'))
);
COMMENT ON TABLE agentq.access_rule IS 'What each access level may do.';
COMMENT ON COLUMN agentq.access_rule.level IS 'producer, worker, operator or reader.';
COMMENT ON COLUMN agentq.access_rule.privilege IS 'The privilege.';
COMMENT ON COLUMN agentq.access_rule.object IS 'The function, table or view of agentq.';

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('producer', ARRAY['fn_job_enqueue', 'fn_job_enqueue_batch', 'fn_job_enqueue_payloads', 'fn_job_get', 'fn_clock_now', 'fn_version',
        'fn_admission_check', 'fn_job_explain', 'fn_backpressure_status']),
    ('worker', ARRAY['fn_job_claim', 'fn_job_claim_batch', 'fn_job_start', 'fn_job_heartbeat', 'fn_job_ack',
        'fn_job_ack_batch', 'fn_job_ack_and_claim', 'fn_job_ack_and_claim_batch', 'fn_job_fail_or_retry', 'fn_job_release',
        'fn_job_snooze', 'fn_job_get',
        'fn_queue_heartbeat_tick', 'fn_clock_now', 'fn_version', 'fn_backpressure_status', 'fn_job_explain', 'fn_job_usage',
        'fn_limit_report', 'fn_limit_gauge']),
    ('reader', ARRAY['fn_vacuum_state', 'fn_job_get', 'fn_config_get', 'fn_queue_stale_check', 'fn_queue_verify', 'fn_clock_now', 'fn_version',
        'fn_schedule_upcoming', 'fn_engine_live', 'fn_engine_state', 'fn_limit_rule_of', 'fn_limit_counted', 'fn_job_explain',
        'fn_backpressure_status', 'fn_admission_check', 'fn_limit_gauge', 'fn_budget_period', 'fn_budget_ends', 'fn_capable_workers']),
    ('operator', ARRAY['fn_job_enqueue', 'fn_job_enqueue_batch', 'fn_job_enqueue_payloads', 'fn_job_claim', 'fn_job_claim_batch', 'fn_job_start',
        'fn_job_heartbeat', 'fn_job_ack', 'fn_job_ack_batch', 'fn_job_ack_and_claim',
        'fn_job_ack_and_claim_batch', 'fn_job_fail_or_retry', 'fn_job_release', 'fn_job_snooze',
        'fn_job_cancel', 'fn_job_change', 'fn_job_move_to_dead_letter', 'fn_job_purge', 'fn_job_get',
        'fn_dead_letter_triage', 'fn_queue_set', 'fn_queue_pause', 'fn_queue_resume', 'fn_queue_heartbeat_tick',
        'fn_queue_stale_check', 'fn_queue_verify', 'fn_config_get', 'fn_config_set', 'fn_clock_now', 'fn_version',
        'fn_schedule_set', 'fn_schedule_pause', 'fn_schedule_resume', 'fn_schedule_remove', 'fn_schedule_upcoming',
        'fn_handler_register', 'fn_handler_remove', 'fn_engine_tick', 'fn_engine_chore_set', 'fn_engine_live', 'fn_engine_state',
        'fn_vacuum_state', 'fn_error_class_set', 'fn_error_class_remove', 'fn_retry_policy_set', 'fn_retry_policy_remove',
        'fn_dead_letter_redrive', 'fn_dead_letter_purge', 'fn_job_replay', 'fn_job_reconcile', 'fn_limit_set', 'fn_limit_remove',
        'fn_limit_preset', 'fn_adjust_concurrency', 'fn_limit_rule_of', 'fn_limit_counted', 'fn_job_explain', 'fn_backpressure_status',
        'fn_admission_check', 'fn_job_usage', 'fn_limit_report', 'fn_limit_gauge', 'fn_budget_set', 'fn_budget_remove', 'fn_budget_period',
        'fn_budget_ends', 'fn_capable_workers'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['job_queue', 'job_attempt', 'job_dead_letter', 'queue_heartbeat', 'queue', 'config',
    'v_queue_health', 'v_queue_depth', 'v_job_queue_backlog', 'v_job_dead_letter_summary', 'event', 'metric', 'schedule',
    'v_schedule', 'job_handler', 'engine_chore', 'v_engine_chore', 'v_engine_status', 'error_class', 'retry_policy', 'limit_rule', 'v_limit', 'budget', 'v_budget']) AS object;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT 'operator', privilege, 'job_queue' FROM unnest(ARRAY['INSERT', 'UPDATE', 'DELETE']) AS privilege;

-- The events room.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('producer', ARRAY['fn_event_emit']),
    ('worker', ARRAY['fn_event_emit', 'fn_event_read']),
    ('reader', ARRAY['fn_event_read', 'fn_event_verify']),
    ('operator', ARRAY['fn_event_emit', 'fn_event_read', 'fn_event_verify'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['event_log', 'event_chain', 'v_event_partition']) AS object;

-- The flow room: steps, actions, signals.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('producer', ARRAY['fn_signal_send', 'fn_action_key']),
    ('worker', ARRAY['fn_step_begin', 'fn_step_complete', 'fn_step_fail', 'fn_step_resolve', 'fn_action_begin', 'fn_action_finish',
        'fn_action_fail', 'fn_action_key', 'fn_checkpoint_save', 'fn_checkpoint_load', 'fn_job_sleep', 'fn_signal_wait',
        'fn_signal_send']),
    ('reader', ARRAY['fn_checkpoint_load', 'fn_action_key']),
    ('operator', ARRAY['fn_step_begin', 'fn_step_complete', 'fn_step_fail', 'fn_step_resolve', 'fn_action_begin',
        'fn_action_finish', 'fn_action_fail', 'fn_action_key', 'fn_checkpoint_save', 'fn_checkpoint_load', 'fn_job_sleep',
        'fn_signal_wait', 'fn_signal_send'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['v_job_step', 'action', 'signal', 'signal_wait']) AS object;

-- The flow room: missions.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('producer', ARRAY['fn_mission_start', 'fn_mission_get', 'fn_mission_explain', 'fn_mission_graph']),
    ('worker', ARRAY['fn_mission_get', 'fn_mission_explain', 'fn_mission_graph']),
    ('reader', ARRAY['fn_mission_get', 'fn_mission_explain', 'fn_mission_graph']),
    ('operator', ARRAY['fn_mission_start', 'fn_mission_get', 'fn_mission_explain', 'fn_mission_graph', 'fn_mission_cancel',
        'fn_mission_pause', 'fn_mission_resume', 'fn_mission_fork'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['mission', 'v_mission', 'v_mission_step', 'v_action_run', 'mission_item']) AS object;

-- The flow room: effects.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('worker', ARRAY['fn_effect_plan', 'fn_effect_begin', 'fn_effect_finish', 'fn_effect_fail', 'fn_effect_get']),
    ('reader', ARRAY['fn_effect_get', 'fn_effect_manifest_check']),
    ('operator', ARRAY['fn_effect_plan', 'fn_effect_begin', 'fn_effect_finish', 'fn_effect_fail', 'fn_effect_get',
        'fn_effect_reconcile', 'fn_effect_compensate', 'fn_effect_manifest_set', 'fn_effect_manifest_check',
        'fn_effect_operation_set', 'fn_effect_operation_remove', 'fn_effect_compensation_set', 'fn_effect_compensation_remove'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['v_effect', 'v_effect_drift', 'effect_chain', 'effect_manifest', 'effect_operation', 'effect_compensation',
    'effect_type']) AS object;

-- The governance room.
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('producer', ARRAY['fn_proposal_create', 'fn_proposal_gate', 'fn_proposal_get', 'fn_proposal_is_auto_approvable',
        'fn_template_step_kinds']),
    ('worker', ARRAY['fn_policy_get']),
    ('reader', ARRAY['fn_policy_get', 'fn_policy_history', 'fn_proposal_get', 'fn_proposal_is_auto_approvable',
        'fn_template_step_kinds']),
    ('operator', ARRAY['fn_policy_get', 'fn_policy_history', 'fn_policy_set', 'fn_proposal_create', 'fn_proposal_gate',
        'fn_proposal_get', 'fn_proposal_is_auto_approvable', 'fn_proposal_approve', 'fn_proposal_reject',
        'fn_template_step_kinds', 'fn_ops_tick'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level
CROSS JOIN unnest(ARRAY['policy', 'policy_version', 'event_cursor', 'reaction', 'reaction_pattern', 'command', 'v_proposal']) AS object;

CREATE TABLE agentq.access_grant (
    role_name  name NOT NULL,
    level      text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    granted_by text NOT NULL DEFAULT session_user,
    CONSTRAINT access_grant_pkey PRIMARY KEY (role_name, level),
    CONSTRAINT access_grant_level_check CHECK (level IN ('producer', 'worker', 'operator', 'reader'))
);
COMMENT ON TABLE agentq.access_grant IS 'Which role has been given which level.';
COMMENT ON COLUMN agentq.access_grant.role_name IS 'The role.';
COMMENT ON COLUMN agentq.access_grant.level IS 'Its level.';
COMMENT ON COLUMN agentq.access_grant.granted_at IS 'Since when.';
COMMENT ON COLUMN agentq.access_grant.granted_by IS 'By whom.';

SELECT pg_catalog.pg_extension_config_dump('agentq.access_grant', '');

CREATE FUNCTION agentq.fn_access_check(p_role text, p_level text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p_level IS NULL OR NOT EXISTS (SELECT FROM agentq.access_rule WHERE level = p_level) THEN
        RAISE EXCEPTION 'access level "%" is not known', coalesce(p_level, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Use one of: producer, worker, operator, reader.';
    END IF;
    IF p_role IS NULL OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = p_role) THEN
        RAISE EXCEPTION 'there is no role "%"', coalesce(p_role, 'NULL')
            USING ERRCODE = 'undefined_object', HINT = 'Create it first: CREATE ROLE …; a level cannot be given to PUBLIC.';
    END IF;
END $$;
COMMENT ON FUNCTION agentq.fn_access_check(text, text) IS 'Refuses an unknown role or level.';

-- The statements that give (or take) the privileges of some rules, one per object.
CREATE FUNCTION agentq.fn_access_targets(p_level text) RETURNS TABLE (privilege text, target text) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.privilege, 'FUNCTION ' || p.oid::regprocedure
    FROM agentq.access_rule r JOIN pg_proc p ON p.proname = r.object AND p.pronamespace = 'agentq'::regnamespace
    WHERE r.level = p_level AND r.privilege = 'EXECUTE'
    UNION ALL
    SELECT r.privilege, 'TABLE ' || format('agentq.%I', r.object)
    FROM agentq.access_rule r WHERE r.level = p_level AND r.privilege <> 'EXECUTE'
$$;
COMMENT ON FUNCTION agentq.fn_access_targets(text) IS 'The objects of an access level, as GRANT names them.';

-- A row in access_grant gives the privileges of its level, whoever puts it there: fn_access_grant, or
-- the restore of a dump.
CREATE FUNCTION agentq.fn_access_apply() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_target record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = NEW.role_name) THEN
        RAISE WARNING 'there is no role "%", so it was not given the level %', NEW.role_name, NEW.level
            USING HINT = 'Create the role, then call agentq.fn_access_grant.';
        RETURN NULL;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA agentq TO %I', NEW.role_name);
    FOR v_target IN SELECT * FROM agentq.fn_access_targets(NEW.level) LOOP
        EXECUTE format('GRANT %s ON %s TO %I', v_target.privilege, v_target.target, NEW.role_name);
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION agentq.fn_access_apply() IS 'Trigger: gives a role the privileges of its level.';

CREATE TRIGGER access_grant_apply AFTER INSERT OR UPDATE ON agentq.access_grant
    FOR EACH ROW EXECUTE FUNCTION agentq.fn_access_apply();
COMMENT ON TRIGGER access_grant_apply ON agentq.access_grant IS 'Gives the privileges of the level.';

CREATE FUNCTION agentq.fn_access_grant(p_role text, p_level text) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM agentq.fn_access_check(p_role, p_level);
    INSERT INTO agentq.access_grant AS g (role_name, level) VALUES (p_role, p_level)
    ON CONFLICT (role_name, level) DO UPDATE SET granted_at = g.granted_at;
    RETURN jsonb_build_object('ok', true, 'code', 'granted', 'role', p_role, 'level', p_level);
END $$;
COMMENT ON FUNCTION agentq.fn_access_grant(text, text) IS 'Gives a role one of the levels producer, worker, operator or reader.';

CREATE FUNCTION agentq.fn_access_revoke(p_role text, p_level text) RETURNS jsonb LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_target record;
BEGIN
    PERFORM agentq.fn_access_check(p_role, p_level);
    FOR v_target IN SELECT * FROM agentq.fn_access_targets(p_level) LOOP
        EXECUTE format('REVOKE %s ON %s FROM %I', v_target.privilege, v_target.target, p_role);
    END LOOP;
    DELETE FROM agentq.access_grant WHERE role_name = p_role AND level = p_level;
    IF NOT EXISTS (SELECT FROM agentq.access_grant WHERE role_name = p_role) THEN
        EXECUTE format('REVOKE USAGE ON SCHEMA agentq FROM %I', p_role);
    END IF;
    -- Levels overlap: what another level of the role also gives is given again.
    UPDATE agentq.access_grant SET granted_at = granted_at WHERE role_name = p_role;
    RETURN jsonb_build_object('ok', true, 'code', 'revoked', 'role', p_role, 'level', p_level);
END $$;
COMMENT ON FUNCTION agentq.fn_access_revoke(text, text) IS 'Takes a level from a role again; what its other levels give stays.';
