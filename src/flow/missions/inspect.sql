-- name: mission_get(mission_id uuid, most int4) freely
SELECT jsonb_build_object('ok', true, 'code', 'found', 'mission', to_jsonb(m),
    'input', (SELECT o.input FROM agentq.mission o WHERE o.mission_id = $1),
    'result', CASE WHEN m.completed_at IS NOT NULL THEN (SELECT jsonb_object_agg(r.name, r.result) FROM agentq_internal.mission_step r
        WHERE r.mission_id = $1 AND r.children = 0 AND r.status = 'succeeded') END,
    'steps', (SELECT jsonb_agg(to_jsonb(s) - 'mission_id' ORDER BY s.position)
              FROM (SELECT * FROM agentq.v_mission_step s WHERE s.mission_id = $1 ORDER BY s.position LIMIT $2) s),
    'more_steps', greatest(m.step_count - $2, 0))
FROM agentq.v_mission m WHERE m.mission_id = $1

-- name: mission_explain(mission_id uuid, most int4) freely
SELECT jsonb_build_object('ok', true,
    'code', CASE WHEN m.completed_at IS NOT NULL THEN 'ended' WHEN m.status IN ('cancelling', 'compensating', 'finishing') THEN m.status
                 WHEN m.last_error IS NOT NULL THEN 'failing' WHEN m.paused_at IS NOT NULL THEN 'paused' ELSE 'running' END,
    'mission_id', m.mission_id, 'status', m.status, 'message', CASE
        WHEN m.completed_at IS NOT NULL THEN format('the mission is %s', m.status)
        WHEN m.status = 'compensating' THEN 'its effects are being compensated'
        WHEN m.status = 'finishing' THEN 'what is to be done in any case is being done, by the mission of v_mission that has it as finally_of'
        WHEN m.status = 'cancelling' THEN 'it ends when the steps that run have ended'
        WHEN m.last_error IS NOT NULL THEN 'it has failed, and ends when the steps that run have ended'
        WHEN m.paused_at IS NOT NULL THEN 'it is paused: no further step becomes a job until fn_mission_resume'
        ELSE 'it goes on as its open steps end' END,
    'paused_at', m.paused_at, 'paused_reason', m.paused_reason, 'last_error', m.last_error, 'deadline_at', m.deadline_at,
    'steps', coalesce((
        SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('step', s.name, 'status', s.status, 'held', nullif(s.held, false),
            'job_id', s.job_id, 'child_mission_id', s.child_mission_id,
            'job', CASE WHEN s.job_id IS NOT NULL THEN agentq.fn_job_explain(s.job_id) - 'ok' END,
            'items_open', CASE WHEN s.item_count IS NOT NULL THEN (SELECT count(*) FROM agentq.mission_item i
                WHERE i.step_id = s.step_id AND i.status = 'queued') END,
            'needs', CASE WHEN s.status = 'waiting' THEN t.need - t.met END,
            'waits_for', CASE WHEN s.status = 'waiting' AND NOT s.held THEN (
                SELECT jsonb_agg(jsonb_build_object('step', p.name, 'status', p.status, 'required', e.required) ORDER BY p.position)
                FROM agentq_internal.mission_edge e JOIN agentq.v_mission_step p ON p.step_id = e.parent_id
                WHERE e.child_id = s.step_id AND p.ended_at IS NULL) END)) ORDER BY s.status = 'waiting', s.position)
        FROM (SELECT * FROM agentq.v_mission_step o WHERE o.mission_id = $1 AND o.ended_at IS NULL
              ORDER BY o.status = 'waiting', o.position LIMIT $2) s
        JOIN agentq_internal.mission_step t ON t.step_id = s.step_id), '[]'),
    'open_steps', m.waiting + m.open)
    || jsonb_strip_nulls(jsonb_build_object(
        'compensation', (
            SELECT jsonb_build_object('chain_id', c.chain_id, 'status', c.status, 'effects', c.effects, 'compensated', c.compensated,
                'reason', c.reason, 'error', c.error,
                -- The one that it waits for, or that failed.
                'at', (SELECT jsonb_build_object('effect_id', e.effect_id, 'effect_type', e.effect_type, 'status', e.status,
                           'compensation', e.declared_compensation, 'job_id', e.compensation_job_id,
                           'job', CASE WHEN e.status = 'compensating' THEN agentq.fn_job_explain(e.compensation_job_id) - 'ok' END)
                       FROM agentq_internal.effect e
                       WHERE e.chain_id = c.chain_id AND e.status IN ('compensating', 'compensation_failed') ORDER BY e.seq DESC LIMIT 1),
                'hint', CASE WHEN c.status = 'halted' THEN 'Mend the reason and go on with fn_effect_compensate(p_mission_id => …), or decide'
                    || ' with fn_effect_skip that the effect stays, and go on with the others.' END)
            FROM agentq.effect_chain c WHERE c.mission_id = $1 ORDER BY c.started_at DESC, c.chain_id DESC LIMIT 1),
        'unknown_effects', CASE WHEN m.completed_at IS NOT NULL THEN (
            SELECT jsonb_agg(jsonb_build_object('effect_id', e.effect_id, 'effect_type', e.effect_type, 'idempotency_key', e.idempotency_key,
                'hint', 'Find out whether it happened and say so with fn_effect_reconcile; then call fn_effect_compensate.') ORDER BY e.seq)
            FROM (SELECT * FROM agentq_internal.effect o WHERE o.mission_id = $1 AND o.status = 'executing' ORDER BY o.seq LIMIT $2) e) END))
FROM agentq.v_mission m WHERE m.mission_id = $1

-- name: graph_nodes(mission_id uuid) freely
SELECT step_id, name, kind, status FROM agentq.v_mission_step WHERE mission_id = $1 ORDER BY position

-- name: graph_edges(mission_id uuid) freely
SELECT e.parent_id, e.child_id, e.required
FROM agentq_internal.mission_step s JOIN agentq_internal.mission_edge e ON e.parent_id = s.step_id
WHERE s.mission_id = $1

-- name: mission_title(mission_id uuid)
SELECT coalesce(title, mission_id::text) FROM agentq.mission WHERE mission_id = $1

-- name: mission_waits_for(mission_id uuid, most int4)
SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('step', s.name, 'signal', w.name, 'key', nullif(w.key, ''), 'until', w.until,
           'hint', CASE WHEN w.name IS NULL THEN 'It ends by itself.' ELSE 'Send the signal with fn_signal_send.' END)) ORDER BY s.position)
FROM (SELECT * FROM agentq_internal.mission_step o WHERE o.mission_id = $1 AND o.status = 'queued' AND o.job_id IS NULL
      AND o.child_id IS NULL AND o.item_count IS NULL ORDER BY o.position LIMIT $2) s
JOIN agentq.mission_wait w ON w.step_id = s.step_id

-- before: mission_waits_for(mission_id uuid, most int4)
SELECT NULL::jsonb WHERE num_nulls($1, $2) < 0

-- name: mission_untold(mission_id uuid, most int4)
SELECT jsonb_agg(jsonb_build_object('step', s.name, 'ended_as', e.status::text,
           'hint', 'A session that steers the mission has not ended its transaction, or the engine could not go on: then the server''s log says why.'))
FROM (SELECT * FROM agentq_internal.mission_end_due o WHERE o.mission_id = $1 LIMIT $2) e
JOIN agentq_internal.mission_step s ON s.step_id = e.step_id

-- before: mission_untold(mission_id uuid, most int4)
SELECT NULL::jsonb AS untold WHERE num_nulls($1, $2) < 0
