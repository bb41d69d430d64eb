-- 0.5.0: failure. Classes of errors, retry policies, verdicts, deadlines, unknown outcomes, redrive and replay.

ALTER TABLE agentq.queue ADD COLUMN durable_claims boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN agentq.queue.durable_claims IS 'Whether a claim is on disk before it is answered; if not, a crash of the server may make jobs ready again that were claimed in its last moments.';
CREATE OR REPLACE FUNCTION agentq.fn_queue_take() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.queue
    SET lease_seconds = NEW.lease_seconds, max_attempts = NEW.max_attempts, priority = NEW.priority,
        description = NEW.description, paused_at = NEW.paused_at, paused_reason = NEW.paused_reason,
        created_at = NEW.created_at, updated_at = NEW.updated_at, keep_seconds = NEW.keep_seconds,
        durable_claims = NEW.durable_claims
    WHERE queue_id = NEW.queue_id AND queue = NEW.queue;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION agentq.fn_error_class_defaults() RETURNS TABLE (
	"error_class" TEXT, 
	"retryable" bool, 
	"aliases" TEXT[], 
	"description" TEXT 
)
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_error_class_defaults_wrapper';

-- Which errors are worth another try, and how tries are made.
CREATE TABLE agentq.error_class (
    error_class text COLLATE "C" NOT NULL,
    retryable   boolean NOT NULL,
    aliases     text[] NOT NULL DEFAULT '{}',
    description text,
    built_in    boolean NOT NULL DEFAULT false,
    updated_at  timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT error_class_pkey PRIMARY KEY (error_class),
    CONSTRAINT error_class_name_check CHECK (btrim(error_class) <> '' AND octet_length(error_class) <= 200)
);
COMMENT ON TABLE agentq.error_class IS 'The known classes of errors. One that is not here is worth another try, and the answer to the failure says so. Changed with fn_error_class_set.';
COMMENT ON COLUMN agentq.error_class.error_class IS 'Name of the class; case, - and spaces do not matter where it is used.';
COMMENT ON COLUMN agentq.error_class.retryable IS 'Whether another try may help. If not, no job is tried again after such an error, whatever its policy says.';
COMMENT ON COLUMN agentq.error_class.aliases IS 'Other names that mean the same.';
COMMENT ON COLUMN agentq.error_class.description IS 'What it means.';
COMMENT ON COLUMN agentq.error_class.built_in IS 'Whether agentq came with it.';
COMMENT ON COLUMN agentq.error_class.updated_at IS 'When it was last changed.';

CREATE TABLE agentq.retry_policy (
    scope                    text NOT NULL,
    name                     text COLLATE "C" NOT NULL,
    max_attempts             integer,
    backoff                  text,
    seconds                  double precision,
    multiplier               double precision,
    max_seconds              double precision,
    delays                   double precision[],
    jitter                   double precision,
    retryable                text[],
    non_retryable            text[],
    requires_idempotency_key boolean,
    created_at               timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_at               timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT retry_policy_pkey PRIMARY KEY (scope, name),
    CONSTRAINT retry_policy_scope_check CHECK (scope IN ('default', 'queue', 'kind')),
    CONSTRAINT retry_policy_name_check CHECK ((scope = 'default') = (name = '') AND octet_length(name) <= 200),
    CONSTRAINT retry_policy_max_attempts_check CHECK (max_attempts >= 1),
    CONSTRAINT retry_policy_backoff_check CHECK (backoff IN ('doubling', 'fixed', 'linear', 'exponential', 'quartic', 'list')),
    CONSTRAINT retry_policy_list_check CHECK (backoff <> 'list' OR coalesce(cardinality(delays), 0) > 0),
    CONSTRAINT retry_policy_numbers_check CHECK (seconds >= 0 AND multiplier >= 1 AND max_seconds >= 0 AND jitter BETWEEN 0 AND 1)
);
COMMENT ON TABLE agentq.retry_policy IS 'How failed jobs are tried again. That of the kind goes before that of the queue, and that before the default, column by column. Changed with fn_retry_policy_set.';
COMMENT ON COLUMN agentq.retry_policy.scope IS 'default, queue or kind.';
COMMENT ON COLUMN agentq.retry_policy.name IS 'The queue or the kind; empty for the default.';
COMMENT ON COLUMN agentq.retry_policy.max_attempts IS 'Attempts of a job that names none; NULL: as the next wider policy says.';
COMMENT ON COLUMN agentq.retry_policy.backoff IS 'How waits grow: doubling (seconds * 2^(n-1), up to 1,024 times), fixed, linear (seconds * n), exponential (seconds * multiplier^(n-1)), quartic (seconds * n^4) or list (delays); NULL: as the next wider policy says.';
COMMENT ON COLUMN agentq.retry_policy.seconds IS 'The first wait; NULL: queue.retry.backoff_base_sec.';
COMMENT ON COLUMN agentq.retry_policy.multiplier IS 'By what an exponential wait grows; NULL: 2.';
COMMENT ON COLUMN agentq.retry_policy.max_seconds IS 'The longest wait; NULL: none.';
COMMENT ON COLUMN agentq.retry_policy.delays IS 'The waits of a list, in seconds; the last goes on.';
COMMENT ON COLUMN agentq.retry_policy.jitter IS 'Share from 0 to 1 by which a wait may be longer or shorter; NULL: 0.';
COMMENT ON COLUMN agentq.retry_policy.retryable IS 'The only classes that are tried again; NULL: all that are retryable.';
COMMENT ON COLUMN agentq.retry_policy.non_retryable IS 'Classes that are not tried again.';
COMMENT ON COLUMN agentq.retry_policy.requires_idempotency_key IS 'Whether a job without a key of its own is refused.';
COMMENT ON COLUMN agentq.retry_policy.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.retry_policy.updated_at IS 'When it was last changed.';

-- A restored dump must win over the rows that CREATE EXTENSION makes.
CREATE FUNCTION agentq.fn_error_class_take() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.error_class
    SET retryable = NEW.retryable, aliases = NEW.aliases, description = NEW.description, built_in = NEW.built_in,
        updated_at = NEW.updated_at
    WHERE error_class = NEW.error_class;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION agentq.fn_error_class_take() IS 'Trigger: an inserted class that is there already is set instead.';

CREATE TRIGGER error_class_take BEFORE INSERT ON agentq.error_class
    FOR EACH ROW EXECUTE FUNCTION agentq.fn_error_class_take();
CREATE TRIGGER error_class_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON agentq.error_class
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_settings_changed();
CREATE TRIGGER retry_policy_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON agentq.retry_policy
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_settings_changed();
COMMENT ON TRIGGER error_class_take ON agentq.error_class IS 'Lets a restored dump overwrite the built-in classes.';
COMMENT ON TRIGGER error_class_changed ON agentq.error_class IS 'Makes every session read the classes again.';
COMMENT ON TRIGGER retry_policy_changed ON agentq.retry_policy IS 'Makes every session read the policies again.';

INSERT INTO agentq.error_class (error_class, retryable, aliases, description, built_in)
SELECT error_class, retryable, aliases, description, true FROM agentq.fn_error_class_defaults();

SELECT pg_catalog.pg_extension_config_dump('agentq.error_class', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.retry_policy', '');

-- How many jobs may run at once, by key.
CREATE TABLE agentq.limit_rule (
    limit_key       text COLLATE "C" NOT NULL,
    max_concurrent  integer,
    max_pending     integer,
    taken_by_hand   integer NOT NULL DEFAULT 0,
    pending_by_hand integer NOT NULL DEFAULT 0,
    description     text,
    created_at      timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    updated_at      timestamptz NOT NULL DEFAULT agentq.fn_clock_now(),
    CONSTRAINT limit_rule_pkey PRIMARY KEY (limit_key),
    CONSTRAINT limit_rule_key_check CHECK (btrim(limit_key) <> '' AND octet_length(limit_key) <= 100),
    CONSTRAINT limit_rule_numbers_check CHECK (max_concurrent >= 0 AND max_pending >= 0 AND taken_by_hand >= 0 AND pending_by_hand >= 0)
);
COMMENT ON TABLE agentq.limit_rule IS 'How many jobs with a key may be held at once. Set with fn_limit_set. A key that ends with * is a rule for each key that begins so.';
COMMENT ON COLUMN agentq.limit_rule.limit_key IS 'global, queue:<name>, kind:<name>, worker_type:<type>, worker:<type>:<owner>, or a key that jobs are enqueued with, such as tenant:42 or venture:7.';
COMMENT ON COLUMN agentq.limit_rule.max_concurrent IS 'Jobs that may be held at once; NULL: any number.';
COMMENT ON COLUMN agentq.limit_rule.max_pending IS 'Jobs that may wait at once, as fn_admission_check sees it; NULL: any number.';
COMMENT ON COLUMN agentq.limit_rule.taken_by_hand IS 'Slots that something else than a job holds, as fn_adjust_concurrency says.';
COMMENT ON COLUMN agentq.limit_rule.pending_by_hand IS 'Things that wait and are no jobs, as fn_adjust_concurrency says.';
COMMENT ON COLUMN agentq.limit_rule.description IS 'What it is for.';
COMMENT ON COLUMN agentq.limit_rule.created_at IS 'When it was made.';
COMMENT ON COLUMN agentq.limit_rule.updated_at IS 'When it was last changed.';

CREATE TRIGGER limit_rule_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON agentq.limit_rule
    FOR EACH STATEMENT EXECUTE FUNCTION agentq.fn_settings_changed();
COMMENT ON TRIGGER limit_rule_changed ON agentq.limit_rule IS 'Makes every session read the rules again.';

SELECT pg_catalog.pg_extension_config_dump('agentq.limit_rule', '');

ALTER TABLE agentq.job
    ADD COLUMN start_by timestamptz,
    ADD COLUMN finish_by timestamptz,
    ADD COLUMN external_effects boolean,
    ADD COLUMN parked text,
    ADD COLUMN replay_of uuid,
    ADD COLUMN replay_count integer,
    ADD COLUMN limit_keys text[],
    ADD COLUMN ordering_key text COLLATE "C";
COMMENT ON COLUMN agentq.job.start_by IS 'If it has not been claimed by then, it is given up.';
COMMENT ON COLUMN agentq.job.finish_by IS 'If it has not finished by then, it is given up.';
COMMENT ON COLUMN agentq.job.external_effects IS 'Whether it has effects outside that must not happen twice: if its lease expires, it is parked.';
COMMENT ON COLUMN agentq.job.parked IS 'Why it waits for a person; NULL: it does not.';
COMMENT ON COLUMN agentq.job.replay_of IS 'The job of which this one is another run.';
COMMENT ON COLUMN agentq.job.replay_count IS 'How many runs of the same work came before; NULL: none.';
COMMENT ON COLUMN agentq.job.limit_keys IS 'Keys of its own by which limits count it.';
COMMENT ON COLUMN agentq.job.ordering_key IS 'Jobs of its queue with the same key run one at a time, in order.';
ALTER TABLE agentq.job_lease ADD COLUMN limits text[];
COMMENT ON COLUMN agentq.job_lease.limits IS 'The keys of which it holds a slot.';

-- A job goes here when a claim finds it and a limit has no slot for it, so that the next claims do not
-- find it again. A claim takes it from here when there is a slot.
CREATE TABLE agentq.job_blocked (
    scheduled_at timestamptz NOT NULL,
    queue_id     integer NOT NULL,
    any_queue_id integer NOT NULL,
    priority     integer NOT NULL,
    job_id       uuid NOT NULL,
    keyed        boolean NOT NULL,
    job_kind     text COLLATE "C" NOT NULL,
    blocked_by   text COLLATE "C" NOT NULL,
    CONSTRAINT job_blocked_pkey PRIMARY KEY (job_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX job_blocked_any_idx ON agentq.job_blocked (blocked_by, any_queue_id, priority, scheduled_at, job_id);
CREATE INDEX job_blocked_kind_idx ON agentq.job_blocked (blocked_by, queue_id, job_kind, priority, scheduled_at, job_id);
COMMENT ON TABLE agentq.job_blocked IS 'Storage: jobs that may run now, but for a limit, or for another job with the same ordering key.';
COMMENT ON COLUMN agentq.job_blocked.scheduled_at IS 'As in job.';
COMMENT ON COLUMN agentq.job_blocked.queue_id IS 'As in job.';
COMMENT ON COLUMN agentq.job_blocked.any_queue_id IS 'The queue again, for claims of any kind.';
COMMENT ON COLUMN agentq.job_blocked.priority IS 'As in job.';
COMMENT ON COLUMN agentq.job_blocked.job_id IS 'The job.';
COMMENT ON COLUMN agentq.job_blocked.keyed IS 'Whether it has an idempotency key of its own.';
COMMENT ON COLUMN agentq.job_blocked.job_kind IS 'As in job.';
COMMENT ON COLUMN agentq.job_blocked.blocked_by IS 'The key of the limit that had no slot, or order:<key> of an ordering key at whose head is another job.';

SELECT pg_catalog.pg_extension_config_dump('agentq.job_blocked', '');

-- For each ordering key in use, the one unfinished job that may run. The others are in job_blocked.
CREATE TABLE agentq.job_order (
    queue_id     integer NOT NULL,
    ordering_key text COLLATE "C" NOT NULL,
    job_id       uuid NOT NULL,
    CONSTRAINT job_order_pkey PRIMARY KEY (queue_id, ordering_key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
COMMENT ON TABLE agentq.job_order IS 'Storage: the job at the head of each ordering key.';
COMMENT ON COLUMN agentq.job_order.queue_id IS 'The queue.';
COMMENT ON COLUMN agentq.job_order.ordering_key IS 'The key.';
COMMENT ON COLUMN agentq.job_order.job_id IS 'The first of its unfinished jobs.';

-- Windows in which no second job with a key is let through, though the first may have finished.
CREATE TABLE agentq.job_throttle (
    idempotency_key text COLLATE "C" NOT NULL,
    job_id          uuid NOT NULL,
    expires_at      timestamptz NOT NULL,
    CONSTRAINT job_throttle_pkey PRIMARY KEY (idempotency_key)
);
CREATE INDEX job_throttle_expires_idx ON agentq.job_throttle (expires_at);
COMMENT ON TABLE agentq.job_throttle IS 'Storage: until when enqueues with a key are throttled.';
COMMENT ON COLUMN agentq.job_throttle.idempotency_key IS 'The key.';
COMMENT ON COLUMN agentq.job_throttle.job_id IS 'The job that was let through.';
COMMENT ON COLUMN agentq.job_throttle.expires_at IS 'When the next is let through; the engine removes the row after that.';

-- Only jobs that have a deadline have rows here. A row of a job that has finished goes when it falls due.
CREATE TABLE agentq.job_deadline (
    deadline_at timestamptz NOT NULL,
    job_id      uuid NOT NULL,
    what        text NOT NULL,
    CONSTRAINT job_deadline_pkey PRIMARY KEY (deadline_at, job_id, what),
    CONSTRAINT job_deadline_what_check CHECK (what IN ('start', 'finish'))
);
COMMENT ON TABLE agentq.job_deadline IS 'Storage: when which job must have been begun or finished.';
COMMENT ON COLUMN agentq.job_deadline.deadline_at IS 'When.';
COMMENT ON COLUMN agentq.job_deadline.job_id IS 'The job.';
COMMENT ON COLUMN agentq.job_deadline.what IS 'start or finish.';

SELECT pg_catalog.pg_extension_config_dump('agentq.job_order', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.job_throttle', '');
SELECT pg_catalog.pg_extension_config_dump('agentq.job_deadline', '');

ALTER TABLE agentq.job_dead_letter
    ADD COLUMN reason text,
    ADD COLUMN error_class text,
    ADD COLUMN error_history jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN settings jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN resolution_status text NOT NULL DEFAULT 'pending',
    ADD COLUMN assigned_to text,
    ADD COLUMN resolution_notes text,
    ADD COLUMN resolved_at timestamptz,
    ADD COLUMN redriven_as uuid,
    ADD COLUMN redriven_at timestamptz,
    ADD CONSTRAINT job_dead_letter_reason_check CHECK (reason IN ('exhausted', 'non_retryable', 'cancelled', 'poison', 'deadline', 'manual')),
    ADD CONSTRAINT job_dead_letter_resolution_check CHECK (resolution_status IN ('pending', 'investigating', 'resolved', 'abandoned'));
CREATE INDEX job_dead_letter_pending_idx ON agentq.job_dead_letter (moved_at) WHERE resolution_status = 'pending';
COMMENT ON COLUMN agentq.job_dead_letter.reason IS 'Why it is here: exhausted, non_retryable, cancelled, poison, deadline or manual; NULL: written by a former version.';
COMMENT ON COLUMN agentq.job_dead_letter.error_class IS 'Class of the last error.';
COMMENT ON COLUMN agentq.job_dead_letter.error_history IS 'Every attempt: number, owner, beginning, end, outcome, class and error.';
COMMENT ON COLUMN agentq.job_dead_letter.settings IS 'What else the job was enqueued with, so that a redrive is like it.';
COMMENT ON COLUMN agentq.job_dead_letter.resolution_status IS 'pending, investigating, resolved or abandoned.';
COMMENT ON COLUMN agentq.job_dead_letter.assigned_to IS 'Who looks into it.';
COMMENT ON COLUMN agentq.job_dead_letter.resolution_notes IS 'What was done about it.';
COMMENT ON COLUMN agentq.job_dead_letter.resolved_at IS 'When it was resolved or abandoned.';
COMMENT ON COLUMN agentq.job_dead_letter.redriven_as IS 'The job as which it was tried again.';
COMMENT ON COLUMN agentq.job_dead_letter.redriven_at IS 'When that was.';

-- Jobs that wait for a person have no time.
CREATE OR REPLACE FUNCTION agentq.fn_queue_verify() RETURNS TABLE (problem text, job_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH place AS (
        SELECT r.job_id, 'ready' AS place FROM agentq.job_ready r
        UNION ALL SELECT w.job_id, 'waiting' FROM agentq.job_waiting w
        UNION ALL SELECT b.job_id, 'blocked' FROM agentq.job_blocked b
        UNION ALL SELECT l.job_id, 'lease' FROM agentq.job_lease l
        UNION ALL SELECT d.job_id, 'done' FROM agentq.job_done d
    ), counted AS (
        SELECT p.job_id, count(*) AS places, string_agg(p.place, ' and ' ORDER BY p.place) AS names
        FROM place p GROUP BY p.job_id
    )
    SELECT 'the job is in ' || c.names, c.job_id FROM counted c WHERE c.places > 1
    UNION ALL
    SELECT 'a row in ' || c.names || ' has no job', c.job_id
    FROM counted c WHERE NOT EXISTS (SELECT FROM agentq.job j WHERE j.job_id = c.job_id)
    UNION ALL
    SELECT 'the job is nowhere', j.job_id
    FROM agentq.job j WHERE NOT EXISTS (SELECT FROM counted c WHERE c.job_id = j.job_id)
    UNION ALL
    SELECT 'the ready row does not agree with its job', r.job_id
    FROM agentq.job_ready r JOIN agentq.job j ON j.job_id = r.job_id
    WHERE (r.queue_id, r.any_queue_id, r.job_kind, r.priority, r.scheduled_at)
        IS DISTINCT FROM (j.queue_id, j.queue_id, j.job_kind, j.priority, j.scheduled_at)
    UNION ALL
    SELECT 'the waiting row does not agree with its job', w.job_id
    FROM agentq.job_waiting w JOIN agentq.job j ON j.job_id = w.job_id
    WHERE w.scheduled_at IS DISTINCT FROM j.scheduled_at
    UNION ALL
    SELECT 'an ordering key has no job at its head', j.job_id
    FROM agentq.job j WHERE j.ordering_key IS NOT NULL
        AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
        AND NOT EXISTS (SELECT FROM agentq.job_order o WHERE o.queue_id = j.queue_id AND o.ordering_key = j.ordering_key)
    UNION ALL
    SELECT 'the head of an ordering key is finished, gone or blocked by its own key', o.job_id
    FROM agentq.job_order o WHERE NOT EXISTS (SELECT FROM agentq.job j WHERE j.job_id = o.job_id AND j.ordering_key = o.ordering_key)
        OR EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = o.job_id)
        OR EXISTS (SELECT FROM agentq.job_blocked b WHERE b.job_id = o.job_id AND b.blocked_by LIKE 'order:%')
    UNION ALL
    SELECT 'the job runs or may run, though another is at the head of its ordering key', j.job_id
    FROM agentq.job j JOIN agentq.job_order o ON o.queue_id = j.queue_id AND o.ordering_key = j.ordering_key AND o.job_id <> j.job_id
    WHERE NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
        AND NOT EXISTS (SELECT FROM agentq.job_blocked b WHERE b.job_id = j.job_id)
    UNION ALL
    SELECT 'the blocked row does not agree with its job', b.job_id
    FROM agentq.job_blocked b JOIN agentq.job j ON j.job_id = b.job_id
    WHERE (b.queue_id, b.any_queue_id, b.job_kind, b.priority, b.scheduled_at)
        IS DISTINCT FROM (j.queue_id, j.queue_id, j.job_kind, j.priority, j.scheduled_at)
    UNION ALL
    SELECT 'an unfinished job does not hold its idempotency key', j.job_id
    FROM agentq.job j WHERE j.idempotency_key IS NOT NULL
        AND NOT EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = j.job_id)
        AND NOT EXISTS (SELECT FROM agentq.job_key k WHERE k.idempotency_key = j.idempotency_key AND k.job_id = j.job_id)
    UNION ALL
    SELECT 'a finished job still holds an idempotency key', k.job_id
    FROM agentq.job_key k WHERE NOT EXISTS (SELECT FROM agentq.job j WHERE j.job_id = k.job_id)
        OR EXISTS (SELECT FROM agentq.job_done d WHERE d.job_id = k.job_id)
$$;
CREATE OR REPLACE VIEW agentq.v_job_queue_backlog AS
SELECT job_kind, state,
       count(*) AS row_count,
       min(created_at) AS oldest_created_at,
       max(created_at) AS newest_created_at,
       min(scheduled_at) FILTER (WHERE state IN ('queued', 'retry_waiting') AND isfinite(scheduled_at)) AS next_scheduled_at,
       avg(attempts)::numeric(10, 2) AS avg_attempts,
       max(attempts) AS max_attempts
FROM agentq.job_queue
GROUP BY job_kind, state;
CREATE OR REPLACE VIEW agentq.v_queue_depth AS
SELECT q.queue,
       q.paused_at IS NOT NULL AS paused,
       r.jobs AS ready,
       w.jobs AS waiting,
       l.jobs AS held,
       r.oldest AS oldest_ready_at,
       extract(epoch FROM (agentq.fn_clock_now() - r.oldest))::numeric(20, 3) AS oldest_ready_seconds,
       w.next AS next_due_at,
       (SELECT count(*) FROM agentq.job_blocked b WHERE b.any_queue_id = q.queue_id) AS blocked
FROM agentq.queue q
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(scheduled_at) AS oldest FROM agentq.job_ready
                    WHERE any_queue_id = q.queue_id) r
CROSS JOIN LATERAL (SELECT count(*) AS jobs, min(w.scheduled_at) FILTER (WHERE isfinite(w.scheduled_at)) AS next
                    FROM agentq.job_waiting w JOIN agentq.job j ON j.job_id = w.job_id WHERE j.queue_id = q.queue_id) w
CROSS JOIN LATERAL (SELECT count(*) AS jobs
                    FROM agentq.job_lease l JOIN agentq.job j ON j.job_id = l.job_id WHERE j.queue_id = q.queue_id) l;
COMMENT ON COLUMN agentq.v_queue_depth.blocked IS 'Jobs that wait for a slot of a limit, or for another job with their ordering key.';

-- With more parameters than before.
DROP FUNCTION agentq.fn_job_fail_or_retry;
CREATE FUNCTION agentq.fn_job_fail_or_retry(
	"p_job_id" uuid,
	"p_lease_owner" TEXT,
	"p_error" TEXT,
	"p_error_class" TEXT DEFAULT NULL,
	"p_lease_token" uuid DEFAULT NULL,
	"p_retry_after" interval DEFAULT NULL,
	"p_verdict" TEXT DEFAULT 'fail'
) RETURNS jsonb
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fail_with_verdict_wrapper';
DROP FUNCTION agentq.fn_dead_letter_triage;
CREATE FUNCTION agentq.fn_dead_letter_triage(
	"p_dead_letter_id" uuid,
	"p_triage_status" TEXT,
	"p_triage_note" TEXT DEFAULT NULL,
	"p_triaged_by" TEXT DEFAULT NULL,
	"p_resolution" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'triage_and_resolve_wrapper';

CREATE FUNCTION agentq.fn_error_class_set(
	"p_error_class" TEXT,
	"p_retryable" bool,
	"p_description" TEXT DEFAULT NULL,
	"p_aliases" TEXT[] DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_error_class_set_wrapper';
CREATE FUNCTION agentq.fn_error_class_remove(
	"p_error_class" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_error_class_remove_wrapper';
CREATE FUNCTION agentq.fn_retry_policy_set(
	"p_scope" TEXT,
	"p_name" TEXT,
	"p_policy" jsonb
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_retry_policy_set_wrapper';
CREATE FUNCTION agentq.fn_retry_policy_remove(
	"p_scope" TEXT,
	"p_name" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_retry_policy_remove_wrapper';
CREATE FUNCTION agentq.fn_dead_letter_redrive(
	"p_dead_letter_id" uuid DEFAULT NULL,
	"p_filter" jsonb DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_dead_letter_redrive_wrapper';
CREATE FUNCTION agentq.fn_dead_letter_purge(
	"p_older_than" interval,
	"p_filter" jsonb DEFAULT NULL,
	"p_limit" INT DEFAULT 10000
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_dead_letter_purge_wrapper';
CREATE FUNCTION agentq.fn_job_replay(
	"p_job_id" uuid,
	"p_from" TEXT DEFAULT 'beginning',
	"p_step" TEXT DEFAULT NULL,
	"p_options" jsonb DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_job_replay_wrapper';
CREATE FUNCTION agentq.fn_job_reconcile(
	"p_job_id" uuid,
	"p_verdict" TEXT,
	"p_note" TEXT DEFAULT NULL,
	"p_by" TEXT DEFAULT NULL
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_job_reconcile_wrapper';
CREATE FUNCTION agentq.fn_limit_set(
	"p_key" TEXT,
	"p_limit" jsonb
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_limit_set_wrapper';
CREATE FUNCTION agentq.fn_limit_remove(
	"p_key" TEXT
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_limit_remove_wrapper';
CREATE FUNCTION agentq.fn_limit_counted(
	"p_key" TEXT
) RETURNS bigint
VOLATILE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_limit_counted_wrapper';
CREATE FUNCTION agentq.fn_admission_check(
	"p_job" jsonb
) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'fn_admission_check_wrapper';

COMMENT ON FUNCTION agentq.fn_error_class_defaults IS 'Every built-in class of errors.';
COMMENT ON FUNCTION agentq.fn_job_fail_or_retry IS 'Ends an attempt without success. Verdict fail: the job waits as its retry policy or p_retry_after says, or ends in the dead letters; cancel: no other try, with a dead letter; discard: no other try and no dead letter; snooze: later, at no cost.';
COMMENT ON FUNCTION agentq.fn_dead_letter_triage IS 'Records what is being done about a dead letter: its triage, and with p_resolution its status, assignee and notes.';
COMMENT ON FUNCTION agentq.fn_error_class_set IS 'Adds a class of errors or changes one: whether another try may help, and its other names.';
COMMENT ON FUNCTION agentq.fn_error_class_remove IS 'Removes a class of errors that is not built in.';
COMMENT ON FUNCTION agentq.fn_retry_policy_set IS 'Sets how failed jobs of a kind, of a queue, or of all are tried again; a null takes a rule away.';
COMMENT ON FUNCTION agentq.fn_retry_policy_remove IS 'Removes a retry policy.';
COMMENT ON FUNCTION agentq.fn_dead_letter_redrive IS 'Enqueues dead letters anew, one or by filter, with the settings and in the order of the first jobs; p_options limits how many, and how many per second.';
COMMENT ON FUNCTION agentq.fn_dead_letter_purge IS 'Removes dead letters older than an age: those that are closed, resolved or abandoned, or those that a filter names.';
COMMENT ON FUNCTION agentq.fn_job_replay IS 'Runs a finished job once more as a new one: from the beginning, its last checkpoint or a step.';
COMMENT ON FUNCTION agentq.fn_job_reconcile IS 'Says what became of a job whose outcome was unknown: done, not_done, or retry.';
COMMENT ON FUNCTION agentq.fn_limit_set IS 'Sets how many jobs with a key may be held at once, and may wait; a null takes a limit away. Jobs that are held already count.';
COMMENT ON FUNCTION agentq.fn_limit_remove IS 'Removes a limit.';
COMMENT ON FUNCTION agentq.fn_limit_counted IS 'Slots of a limit in use, as shared memory counts them; NULL: it does not.';
COMMENT ON FUNCTION agentq.fn_admission_check IS 'Whether a job would be let in now: accept, defer with a time to come back, or refuse, with the reason. Enqueues ask the same.';

-- What the rules of limit_rule come to.
CREATE FUNCTION agentq.fn_limit_rule_of(p_key text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.limit_key FROM agentq.limit_rule r
    WHERE r.limit_key = p_key OR (r.limit_key LIKE '%*' AND starts_with(p_key, left(r.limit_key, -1)))
    ORDER BY r.limit_key = p_key DESC, length(r.limit_key) DESC
    LIMIT 1
$$;
COMMENT ON FUNCTION agentq.fn_limit_rule_of(text) IS 'The rule that holds for a key: its own, or that of the longest pattern.';

CREATE VIEW agentq.v_limit AS
SELECT k.limit_key, r.limit_key AS rule, r.max_concurrent, r.max_pending, r.taken_by_hand,
       coalesce(k.active, 0) AS active, coalesce(k.blocked, 0) AS blocked, c.counted
FROM (
    SELECT limit_key, sum(active)::bigint AS active, sum(blocked)::bigint AS blocked
    FROM (
        SELECT limit_key, 0 AS active, 0 AS blocked FROM agentq.limit_rule WHERE limit_key NOT LIKE '%*'
        UNION ALL SELECT unnest(limits), 1, 0 FROM agentq.job_lease WHERE limits IS NOT NULL
        UNION ALL SELECT blocked_by, 0, 1 FROM agentq.job_blocked WHERE blocked_by NOT LIKE 'order:%'
    ) all_keys
    GROUP BY limit_key
) k
LEFT JOIN agentq.limit_rule r ON r.limit_key = agentq.fn_limit_rule_of(k.limit_key)
CROSS JOIN LATERAL (SELECT agentq.fn_limit_counted(k.limit_key) AS counted) c;
COMMENT ON VIEW agentq.v_limit IS 'Each key of a limit that is in use, or has a rule of its own, with who holds and who waits for its slots.';
COMMENT ON COLUMN agentq.v_limit.limit_key IS 'The key.';
COMMENT ON COLUMN agentq.v_limit.rule IS 'The rule that holds for it; NULL: none any more.';
COMMENT ON COLUMN agentq.v_limit.max_concurrent IS 'Jobs that may be held at once.';
COMMENT ON COLUMN agentq.v_limit.max_pending IS 'Jobs that may wait at once.';
COMMENT ON COLUMN agentq.v_limit.taken_by_hand IS 'Slots that something else than a job holds.';
COMMENT ON COLUMN agentq.v_limit.active IS 'Leases that hold a slot.';
COMMENT ON COLUMN agentq.v_limit.blocked IS 'Jobs that were found when all slots were taken, and wait for one.';
COMMENT ON COLUMN agentq.v_limit.counted IS 'Slots in use as shared memory counts them; NULL: it does not. The same as active, but for claims and acks that are being committed.';

CREATE FUNCTION agentq.fn_adjust_concurrency(p_scope text, p_scope_id uuid, p_active_delta integer, p_pending_delta integer)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE agentq.limit_rule
    SET taken_by_hand = greatest(0, taken_by_hand + coalesce(p_active_delta, 0)),
        pending_by_hand = greatest(0, pending_by_hand + coalesce(p_pending_delta, 0)),
        updated_at = agentq.fn_clock_now()
    WHERE limit_key = CASE WHEN p_scope_id IS NULL THEN p_scope ELSE p_scope || ':' || p_scope_id END;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION agentq.fn_adjust_concurrency(text, uuid, integer, integer) IS 'Counts slots that something else than a job takes or gives back: they are taken from the limit of that scope. False: there is no such rule.';

CREATE FUNCTION agentq.fn_limit_preset() RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM agentq.fn_limit_set(p.limit_key, jsonb_strip_nulls(jsonb_build_object(
        'max_concurrent', p.max_concurrent, 'max_pending', p.max_pending, 'description', p.description)))
    FROM (VALUES
        ('global', 200, 1000, 'all jobs'),
        ('venture:*', 10, 50, 'each venture'),
        ('stage:*', 20, NULL, 'each stage'),
        ('worker:ceo_handler:*', 5, NULL, 'each CEO handler'),
        ('worker:vp_handler:*', 10, NULL, 'each VP handler'),
        ('worker:crew_executor:*', 1, NULL, 'each crew executor')
    ) AS p (limit_key, max_concurrent, max_pending, description);
    RETURN jsonb_build_object('ok', true, 'code', 'set', 'rules', 6);
END $$;
COMMENT ON FUNCTION agentq.fn_limit_preset() IS 'Sets limits that suit a fleet of agents: 200 jobs at once, 10 for each venture, 20 for each stage, 5, 10 and 1 for each CEO handler, VP handler and crew executor.';

-- Why a job waits, and how the whole queue stands.
CREATE FUNCTION agentq.fn_job_explain(p_job_id uuid) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now   timestamptz := agentq.fn_clock_now();
    v_job   record;
    v_lease agentq.job_lease;
    v_gates jsonb := '[]';
    v_at    timestamptz;
    v_ahead bigint;
BEGIN
    SELECT j.*, q.queue, q.paused_at, q.paused_reason, v.state, v.finished_at, b.blocked_by
    INTO v_job
    FROM agentq.job j
    JOIN agentq.queue q ON q.queue_id = j.queue_id
    JOIN agentq.job_queue v ON v.job_id = j.job_id
    LEFT JOIN agentq.job_blocked b ON b.job_id = j.job_id
    WHERE j.job_id = p_job_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no job %', coalesce(p_job_id::text, 'NULL')
            USING ERRCODE = 'no_data_found', HINT = 'It may have been purged; its dead letter, if any, is in agentq.job_dead_letter.';
    END IF;
    IF v_job.finished_at IS NOT NULL THEN
        RETURN jsonb_build_object('ok', true, 'code', 'finished', 'job_id', p_job_id, 'state', v_job.state,
            'finished_at', v_job.finished_at, 'gates', '[]'::jsonb);
    END IF;
    SELECT * INTO v_lease FROM agentq.job_lease WHERE job_id = p_job_id;
    IF FOUND THEN
        RETURN jsonb_build_object('ok', true, 'code', 'held', 'job_id', p_job_id, 'state', v_job.state,
            'lease_owner', v_lease.lease_owner, 'lease_until', v_lease.lease_until, 'held_since', v_lease.picked_at,
            'cancel_requested', v_lease.cancel_reason IS NOT NULL, 'gates', '[]'::jsonb);
    END IF;

    -- From the widest gate to the narrowest; each says what would open it.
    IF NOT agentq.fn_config_get('queue.job_substrate.enabled')::boolean THEN
        v_gates := v_gates || jsonb_build_object('gate', 'gate_closed', 'message', 'queue.job_substrate.enabled is false',
            'hint', 'Open it with fn_config_set.');
    END IF;
    IF v_job.paused_at IS NOT NULL THEN
        v_gates := v_gates || jsonb_build_object('gate', 'paused', 'message', format('the queue %s is paused', v_job.queue),
            'since', v_job.paused_at, 'reason', v_job.paused_reason, 'hint', 'Resume it with fn_queue_resume.');
    END IF;
    IF v_job.parked IS NOT NULL THEN
        v_gates := v_gates || jsonb_build_object('gate', 'parked', 'message', 'nobody knows what became of its last attempt',
            'hint', 'Find out, and say so with fn_job_reconcile.');
    ELSIF v_job.scheduled_at > v_now AND v_job.state = 'retry_waiting' THEN
        v_at := v_job.scheduled_at;
        v_gates := v_gates || jsonb_build_object('gate', 'retry', 'message',
            format('attempt %s failed, and the next waits', v_job.attempts), 'until', v_at, 'error', left(v_job.last_error, 500));
    ELSIF v_job.scheduled_at > v_now THEN
        v_at := v_job.scheduled_at;
        v_gates := v_gates || jsonb_build_object('gate', 'schedule', 'message', 'its time has not come', 'until', v_at);
    END IF;
    IF v_job.blocked_by LIKE 'order:%' THEN
        v_gates := v_gates || (
            SELECT jsonb_build_object('gate', 'ordering_key', 'message',
                format('another job with the ordering key %s comes first', v_job.ordering_key),
                'ordering_key', v_job.ordering_key, 'ahead', h.job_id, 'ahead_state', h.state, 'ahead_until', h.lease_until,
                'hint', 'It runs when that job has finished.')
            FROM agentq.job_order o JOIN agentq.job_queue h ON h.job_id = o.job_id
            WHERE o.queue_id = v_job.queue_id AND o.ordering_key = v_job.ordering_key);
    END IF;
    v_gates := v_gates || coalesce((
        SELECT jsonb_agg(jsonb_build_object('gate', 'limit', 'message',
                format('all %s slots of %s are taken', greatest(r.max_concurrent - r.taken_by_hand, 0), k.key),
                'limit_key', k.key, 'max_concurrent', r.max_concurrent, 'taken_by_hand', r.taken_by_hand, 'active', h.active,
                'held_by', h.held_by, 'until', h.until, 'hint', 'It runs when one of them ends, or when fn_limit_set raises the limit.')
            ORDER BY k.key)
        FROM (SELECT 'global' AS key UNION ALL SELECT 'queue:' || v_job.queue UNION ALL SELECT 'kind:' || v_job.job_kind
              UNION ALL SELECT unnest(v_job.limit_keys)) k
        JOIN agentq.limit_rule r ON r.limit_key = agentq.fn_limit_rule_of(k.key) AND r.max_concurrent IS NOT NULL
        CROSS JOIN LATERAL (
            SELECT count(*) AS active, min(l.lease_until) AS until,
                   (SELECT jsonb_agg(jsonb_build_object('job_id', t.job_id, 'lease_owner', t.lease_owner, 'lease_until', t.lease_until))
                    FROM (SELECT * FROM agentq.job_lease t WHERE k.key = ANY (t.limits) ORDER BY t.lease_until LIMIT 10) t) AS held_by
            FROM agentq.job_lease l WHERE k.key = ANY (l.limits)) h
        WHERE h.active >= greatest(r.max_concurrent - r.taken_by_hand, 0)), '[]');
    IF least(v_job.finish_by, CASE WHEN v_job.picked_at IS NULL THEN v_job.start_by END) <= v_now THEN
        v_gates := v_gates || jsonb_build_object('gate', 'deadline', 'message', 'it has missed its deadline and will be given up',
            'start_by', v_job.start_by, 'finish_by', v_job.finish_by);
    END IF;
    -- Nothing but other jobs. Counted up to a bound, so that a long queue does not make this slow.
    IF v_gates = '[]' THEN
        SELECT count(*) INTO v_ahead FROM (
            SELECT FROM agentq.job_ready r
            WHERE r.any_queue_id = v_job.queue_id
              AND (r.priority, r.scheduled_at, r.job_id) < (v_job.priority, v_job.scheduled_at, p_job_id)
            LIMIT 1000) a;
        IF NOT EXISTS (SELECT FROM agentq.job_lease) AND NOT EXISTS (
            SELECT FROM agentq.queue_heartbeat h WHERE v_now - h.last_tick_at
                <= make_interval(secs => agentq.fn_config_get('queue.heartbeat.stale_threshold_seconds')::integer)) THEN
            v_gates := v_gates || jsonb_build_object('gate', 'no_worker', 'message', 'no job is held and no executor has given a sign of life',
                'hint', 'Start a worker that claims from this queue.');
        END IF;
    END IF;
    RETURN jsonb_build_object('ok', true, 'code', CASE WHEN v_gates = '[]' THEN 'ready' ELSE 'waiting' END,
        'job_id', p_job_id, 'state', v_job.state, 'queue', v_job.queue, 'gates', v_gates,
        'may_run_at', CASE WHEN v_gates = '[]' THEN v_now ELSE v_at END, 'ahead', v_ahead);
END $$;
COMMENT ON FUNCTION agentq.fn_job_explain(uuid) IS 'Why a job does not run: every gate that holds it, who holds its slots, which job is ahead, and when it may run.';

CREATE FUNCTION agentq.fn_backpressure_status(p_queue text DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now      timestamptz := agentq.fn_clock_now();
    v_queue_id integer;
    v_rule     agentq.limit_rule;
    v_active   bigint;
    v_ready    bigint;
    v_waiting  bigint;
    v_oldest   timestamptz;
    v_rate     double precision;
    v_usage    double precision;
    v_ratio    double precision;
    v_level    text;
    v_vacuum   record;
    v_advice   text[] := '{}';
BEGIN
    IF p_queue IS NOT NULL THEN
        SELECT queue_id INTO v_queue_id FROM agentq.queue WHERE queue = p_queue;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no queue "%"', p_queue
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for the whole server, or name one of agentq.queue.';
        END IF;
    END IF;
    SELECT * INTO v_rule FROM agentq.limit_rule
    WHERE limit_key = agentq.fn_limit_rule_of(CASE WHEN p_queue IS NULL THEN 'global' ELSE 'queue:' || p_queue END);
    SELECT count(*) INTO v_active FROM agentq.job_lease l
    WHERE v_queue_id IS NULL OR EXISTS (SELECT FROM agentq.job j WHERE j.job_id = l.job_id AND j.queue_id = v_queue_id);
    SELECT count(*), min(scheduled_at) INTO v_ready, v_oldest FROM (
        SELECT any_queue_id, scheduled_at FROM agentq.job_ready
        UNION ALL SELECT any_queue_id, scheduled_at FROM agentq.job_blocked) r
    WHERE v_queue_id IS NULL OR r.any_queue_id = v_queue_id;
    SELECT count(*) INTO v_waiting FROM agentq.job_waiting w
    WHERE v_queue_id IS NULL OR EXISTS (SELECT FROM agentq.job j WHERE j.job_id = w.job_id AND j.queue_id = v_queue_id);
    -- What has been finished lately, by the metrics of the last minutes, or by the last minute itself.
    SELECT sum(finished) / nullif(sum(seconds), 0) INTO v_rate FROM (
        SELECT sum(m.finished) AS finished, max(m.period_seconds) AS seconds FROM agentq.metric m
        WHERE m.taken_at > v_now - interval '5 minutes' AND (p_queue IS NULL OR m.queue = p_queue) GROUP BY m.taken_at) m;
    IF v_rate IS NULL THEN
        SELECT count(*) / 60.0 INTO v_rate FROM agentq.job_done d
        WHERE d.finished_at > v_now - interval '1 minute'
          AND (v_queue_id IS NULL OR EXISTS (SELECT FROM agentq.job j WHERE j.job_id = d.job_id AND j.queue_id = v_queue_id));
    END IF;
    v_active := v_active + coalesce(v_rule.taken_by_hand, 0);
    v_usage := 100.0 * v_active / nullif(v_rule.max_concurrent, 0);
    v_ratio := (v_ready + v_waiting + coalesce(v_rule.pending_by_hand, 0))::double precision / nullif(v_rule.max_pending, 0);
    v_level := CASE WHEN v_usage > 90 OR v_ratio > 0.8 THEN 'critical'
                    WHEN v_usage > 70 OR v_ratio > 0.5 THEN 'elevated' ELSE 'normal' END;
    SELECT * INTO v_vacuum FROM agentq.fn_vacuum_state();
    IF v_usage > 70 THEN
        v_advice := v_advice || format('%s of %s slots are taken: add workers and raise the limit, or slow the producers down', v_active, v_rule.max_concurrent);
    END IF;
    IF v_ratio > 0.5 THEN
        v_advice := v_advice || format('%s of at most %s jobs wait: slow the producers down', v_ready + v_waiting, v_rule.max_pending);
    END IF;
    IF v_ready > 0 AND coalesce(v_rate, 0) = 0 THEN
        v_advice := v_advice || 'jobs wait and none has been finished lately: look whether workers run'::text;
    END IF;
    IF v_vacuum.dead_rows > 10000 AND v_vacuum.held_by IS NOT NULL THEN
        v_advice := v_advice || format('%s dead rows cannot be removed because of %s: end its transaction', v_vacuum.dead_rows, v_vacuum.held_by);
    END IF;
    RETURN jsonb_build_object('ok', true, 'code', 'status', 'level', v_level, 'queue', p_queue,
        'global_utilization', round(v_usage::numeric, 1), 'active', v_active, 'max_concurrent', v_rule.max_concurrent,
        'queue_depth', v_ready + v_waiting, 'ready', v_ready, 'scheduled', v_waiting, 'max_pending', v_rule.max_pending,
        'oldest_ready_seconds', round(extract(epoch FROM v_now - v_oldest), 3), 'finished_per_second', round(v_rate::numeric, 3),
        'estimated_wait_time_seconds', CASE WHEN v_ready = 0 THEN 0 ELSE round((v_ready / nullif(v_rate, 0))::numeric, 1) END,
        'dead_rows', v_vacuum.dead_rows,
        'vacuum_held_by', CASE WHEN v_vacuum.dead_rows > 10000 THEN v_vacuum.held_by END,
        'recommendations', to_jsonb(v_advice));
END $$;
COMMENT ON FUNCTION agentq.fn_backpressure_status(text) IS 'How hard the queues, or one of them, are pressed: normal, elevated or critical, with utilization, depth, expected wait, who keeps vacuum back, and what to do.';

INSERT INTO agentq.config (key, value, description)
SELECT key, value, description FROM agentq.fn_config_defaults() d
WHERE NOT EXISTS (SELECT FROM agentq.config c WHERE c.key = d.key);
INSERT INTO agentq.engine_chore (chore, every_seconds, about)
SELECT chore, every_seconds, about FROM agentq.fn_engine_chore_defaults() d
WHERE NOT EXISTS (SELECT FROM agentq.engine_chore c WHERE c.chore = d.chore);
UPDATE agentq.engine_chore c SET about = d.about FROM agentq.fn_engine_chore_defaults() d WHERE d.chore = c.chore AND d.about <> c.about;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentq FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA agentq FROM PUBLIC;

INSERT INTO agentq.access_rule (level, privilege, object)
SELECT 'operator', 'EXECUTE', object
FROM unnest(ARRAY['fn_error_class_set', 'fn_error_class_remove', 'fn_retry_policy_set', 'fn_retry_policy_remove', 'fn_dead_letter_redrive', 'fn_dead_letter_purge', 'fn_job_replay', 'fn_job_reconcile', 'fn_limit_set', 'fn_limit_remove', 'fn_limit_counted', 'fn_admission_check', 'fn_limit_preset', 'fn_adjust_concurrency', 'fn_limit_rule_of', 'fn_job_explain', 'fn_backpressure_status']) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'SELECT', object
FROM unnest(ARRAY['reader', 'operator']) AS level CROSS JOIN unnest(ARRAY['error_class', 'retry_policy', 'limit_rule', 'v_limit']) AS object;
INSERT INTO agentq.access_rule (level, privilege, object)
SELECT level, 'EXECUTE', object
FROM (VALUES
    ('reader', ARRAY['fn_limit_rule_of', 'fn_limit_counted', 'fn_job_explain', 'fn_backpressure_status', 'fn_admission_check']),
    ('producer', ARRAY['fn_admission_check', 'fn_job_explain', 'fn_backpressure_status']),
    ('worker', ARRAY['fn_backpressure_status', 'fn_job_explain'])
) AS l(level, objects)
CROSS JOIN LATERAL unnest(l.objects) AS object;
-- Roles that have a level get what it has gained.
UPDATE agentq.access_grant SET granted_at = granted_at;
