-- The naive yardstick: the documented job_queue of agentq written down straight, as one wide table
-- with its nine states, its five indexes, its CHECKs and its updated_at trigger, and the contract
-- of the functions in plpgsql. This is what one would build in an afternoon from the description.
--
-- Where the description leaves room, the faster way was taken: claims order by what the documented
-- index offers (state, scheduled_at, priority), so that no claim sorts; nothing reads a
-- configuration table; the functions are not SECURITY DEFINER and set nothing.

CREATE TABLE job_queue (
    job_id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_kind        text NOT NULL CHECK (btrim(job_kind) <> ''),
    state           text NOT NULL DEFAULT 'queued',
    source_ref      text,
    target_ref      text,
    payload_ref     text,
    payload_json    jsonb NOT NULL DEFAULT '{}',
    priority        integer NOT NULL DEFAULT 100 CHECK (priority >= 0),
    scheduled_at    timestamptz NOT NULL DEFAULT now(),
    picked_at       timestamptz,
    finished_at     timestamptz,
    lease_owner     text,
    lease_until     timestamptz,
    attempts        integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    max_attempts    integer NOT NULL DEFAULT 5 CHECK (max_attempts >= 1),
    idempotency_key text NOT NULL,
    actor           text NOT NULL CHECK (btrim(actor) <> ''),
    run_id          uuid,
    last_error      text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT job_queue_state_check CHECK (state IN ('queued', 'leased', 'in_progress', 'succeeded', 'failed',
        'retry_waiting', 'dead_letter', 'cancelled', 'cleaned')),
    CONSTRAINT job_queue_payload_safe_check CHECK (NOT payload_json ?| ARRAY['body', 'content', 'raw', 'vector',
        'embedding', 'secret', 'token', 'password', 'ssn', 'personal_data']),
    CONSTRAINT job_queue_lease_check CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CONSTRAINT job_queue_finished_check CHECK (finished_at IS NOT NULL
        OR state NOT IN ('succeeded', 'failed', 'dead_letter', 'cancelled', 'cleaned'))
);

-- A key is unique among unfinished jobs only.
CREATE UNIQUE INDEX job_queue_idempotency_active_uq ON job_queue (idempotency_key)
    WHERE state IN ('queued', 'leased', 'in_progress', 'retry_waiting');
-- For claims.
CREATE INDEX job_queue_state_scheduled_idx ON job_queue (state, scheduled_at, priority)
    WHERE state IN ('queued', 'retry_waiting');
-- For the recovery of expired leases.
CREATE INDEX job_queue_lease_until_idx ON job_queue (lease_until) WHERE state = 'leased';
-- For views.
CREATE INDEX job_queue_job_kind_state_idx ON job_queue (job_kind, state);
-- For retention.
CREATE INDEX job_queue_created_at_idx ON job_queue (created_at DESC);

CREATE FUNCTION fn_job_queue_updated_at() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END $$;

CREATE TRIGGER tr_job_queue_updated_at BEFORE UPDATE ON job_queue
    FOR EACH ROW EXECUTE FUNCTION fn_job_queue_updated_at();

-- Enqueues a job; a key in use by an unfinished job answers with that job.
CREATE FUNCTION fn_job_enqueue(p_job_kind text, p_idempotency_key text DEFAULT NULL, p_actor text DEFAULT NULL,
    p_payload_json jsonb DEFAULT '{}', p_priority integer DEFAULT 100, p_scheduled_at timestamptz DEFAULT now())
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_key    text := coalesce(p_idempotency_key, gen_random_uuid()::text);
    v_job_id uuid;
    v_state  text;
BEGIN
    INSERT INTO job_queue (job_kind, idempotency_key, actor, payload_json, priority, scheduled_at)
    VALUES (p_job_kind, v_key, coalesce(p_actor, session_user), p_payload_json, p_priority, p_scheduled_at)
    ON CONFLICT (idempotency_key) WHERE state IN ('queued', 'leased', 'in_progress', 'retry_waiting') DO NOTHING
    RETURNING job_id INTO v_job_id;
    IF v_job_id IS NOT NULL THEN
        RETURN jsonb_build_object('ok', true, 'code', 'enqueued', 'duplicate', false, 'job_id', v_job_id,
            'state', 'queued', 'scheduled_at', p_scheduled_at);
    END IF;
    SELECT job_id, state INTO v_job_id, v_state FROM job_queue
    WHERE idempotency_key = v_key AND state IN ('queued', 'leased', 'in_progress', 'retry_waiting');
    RETURN jsonb_build_object('ok', true, 'code', 'duplicate', 'duplicate', true, 'job_id', v_job_id, 'state', v_state);
END $$;

-- A claimed job as its worker sees it.
CREATE FUNCTION job_document(p_job job_queue) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('ok', true, 'code', 'claimed', 'job_id', p_job.job_id, 'job_kind', p_job.job_kind,
        'payload_json', p_job.payload_json, 'source_ref', p_job.source_ref, 'target_ref', p_job.target_ref,
        'payload_ref', p_job.payload_ref, 'priority', p_job.priority, 'scheduled_at', p_job.scheduled_at,
        'attempts', p_job.attempts, 'max_attempts', p_job.max_attempts, 'lease_owner', p_job.lease_owner,
        'lease_until', p_job.lease_until, 'idempotency_key', p_job.idempotency_key, 'actor', p_job.actor,
        'run_id', p_job.run_id, 'created_at', p_job.created_at)
$$;

-- Leases the first due job of a kind.
CREATE FUNCTION fn_job_claim(p_lease_owner text, p_job_kind text, p_lease_seconds integer DEFAULT 300)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_answer jsonb;
BEGIN
    UPDATE job_queue j
    SET state = 'leased', picked_at = now(), lease_owner = p_lease_owner,
        lease_until = now() + p_lease_seconds * interval '1 second'
    WHERE j.job_id = (
        SELECT c.job_id FROM job_queue c
        WHERE c.state IN ('queued', 'retry_waiting') AND c.scheduled_at <= now() AND c.job_kind = p_job_kind
        ORDER BY c.state, c.scheduled_at, c.priority
        LIMIT 1
        FOR UPDATE SKIP LOCKED)
    RETURNING job_document(j) INTO v_answer;
    RETURN coalesce(v_answer, '{"ok": true, "code": "empty"}');
END $$;

-- Leases up to p_limit due jobs of a kind.
CREATE FUNCTION fn_job_claim_batch(p_lease_owner text, p_limit integer, p_job_kind text, p_lease_seconds integer DEFAULT 300)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_jobs  jsonb;
    v_count bigint;
BEGIN
    WITH pick AS (
        SELECT c.job_id FROM job_queue c
        WHERE c.state IN ('queued', 'retry_waiting') AND c.scheduled_at <= now() AND c.job_kind = p_job_kind
        ORDER BY c.state, c.scheduled_at, c.priority
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), held AS (
        UPDATE job_queue j
        SET state = 'leased', picked_at = now(), lease_owner = p_lease_owner,
            lease_until = now() + p_lease_seconds * interval '1 second'
        FROM pick WHERE j.job_id = pick.job_id
        RETURNING job_document(j) AS job
    )
    SELECT coalesce(jsonb_agg(job), '[]'), count(*) INTO v_jobs, v_count FROM held;
    RETURN jsonb_build_object('ok', true, 'code', CASE WHEN v_count > 0 THEN 'claimed' ELSE 'empty' END,
        'count', v_count, 'jobs', v_jobs);
END $$;

-- Finishes a held job.
CREATE FUNCTION fn_job_ack(p_job_id uuid, p_lease_owner text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    UPDATE job_queue
    SET state = 'succeeded', finished_at = now(), lease_owner = NULL, lease_until = NULL
    WHERE job_id = p_job_id AND state IN ('leased', 'in_progress') AND lease_owner = p_lease_owner;
    RETURN jsonb_build_object('ok', FOUND, 'code', CASE WHEN FOUND THEN 'succeeded' ELSE 'lease_lost' END,
        'job_id', p_job_id);
END $$;

-- Finishes many held jobs.
CREATE FUNCTION fn_job_ack_batch(p_lease_owner text, p_job_ids uuid[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    UPDATE job_queue
    SET state = 'succeeded', finished_at = now(), lease_owner = NULL, lease_until = NULL
    WHERE job_id = ANY (p_job_ids) AND state IN ('leased', 'in_progress') AND lease_owner = p_lease_owner;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN jsonb_build_object('ok', true, 'code', 'acked', 'acked', v_count,
        'lease_lost', cardinality(p_job_ids) - v_count);
END $$;
