//! What is done to a copy of the honest database, and the breach that the checker must find in it.

use agentq_torture::check::Rule;

/// No trigger stands in the way of a fault, which finds the job of the cast that it needs by its fate. The mission has the
/// first key that the producer of the cast has made up.
pub const PREPARE: &str = "
    SET session_replication_role = replica;
    CREATE FUNCTION pg_temp.made(fate text) RETURNS uuid LANGUAGE sql AS
        'SELECT job_id FROM agentq.job_queue WHERE idempotency_key = fate';
    CREATE FUNCTION pg_temp.token(fate text, what text) RETURNS uuid LANGUAGE sql AS
        'SELECT lease_token FROM agentq_internal.job_attempt_log WHERE job_id = pg_temp.made(fate) AND outcome = what
         UNION ALL SELECT lease_token FROM agentq_internal.job_done WHERE job_id = pg_temp.made(fate) AND what = ''succeeded''';
    CREATE FUNCTION pg_temp.mission() RETURNS uuid LANGUAGE sql AS
        'SELECT mission_id FROM agentq.mission WHERE idempotency_key = ''cast-producer/1''';
    CREATE FUNCTION pg_temp.trip() RETURNS uuid LANGUAGE sql AS
        'SELECT mission_id FROM agentq.mission WHERE idempotency_key = ''cast-producer/2''';";

/// What it is, the rule that it breaks, and how it comes about.
pub const IN_THE_DATABASE: [(&str, Rule, &str); 28] = [
    (
        "a finished job is gone",
        Rule::NothingLost,
        "CREATE TEMP TABLE victim AS SELECT pg_temp.made('acked') AS job_id;
        DELETE FROM agentq_internal.job WHERE job_id IN (TABLE victim); DELETE FROM agentq_internal.job_done WHERE job_id IN (TABLE victim);
        DELETE FROM agentq_internal.job_attempt_log WHERE job_id IN (TABLE victim)",
    ),
    (
        "a mission is gone",
        Rule::NothingLost,
        "DELETE FROM agentq.mission WHERE mission_id = pg_temp.mission()",
    ),
    (
        "a job that nobody asked for",
        Rule::NothingTwice,
        "SELECT agentq.fn_job_enqueue('plain', 'a phantom')",
    ),
    (
        "a job made a second time",
        Rule::NothingTwice,
        "SELECT agentq.fn_job_enqueue('plain', 'acked')",
    ),
    (
        "an ack that did not last",
        Rule::Final,
        "CREATE TEMP TABLE victim AS SELECT pg_temp.made('acked') AS job_id;
        DELETE FROM agentq_internal.job_done WHERE job_id IN (TABLE victim);
        INSERT INTO agentq_internal.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed)
        SELECT queue_id, queue_id, job_kind, priority, scheduled_at, job_id, false FROM agentq_internal.job
        WHERE job_id IN (TABLE victim)",
    ),
    (
        "a cancel that did not last",
        Rule::Final,
        "UPDATE agentq_internal.job_done SET state = 'failed' WHERE job_id = pg_temp.made('cancelled')",
    ),
    (
        "a success under another's token",
        Rule::AttemptsAddUp,
        "UPDATE agentq_internal.job_done SET lease_token = gen_random_uuid() WHERE job_id = pg_temp.made('acked')",
    ),
    (
        "an attempt that is not there",
        Rule::AttemptsAddUp,
        "DELETE FROM agentq_internal.job_attempt_log WHERE lease_token = pg_temp.token('released', 'released')",
    ),
    (
        "an attempt by nobody",
        Rule::AttemptsAddUp,
        "INSERT INTO agentq_internal.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner)
        SELECT job_id, gen_random_uuid(), created_at, created_at, 'released', 'a stranger' FROM agentq_internal.job
        WHERE job_id = pg_temp.made('acked')",
    ),
    (
        "one more attempt than its owner knows of",
        Rule::AttemptsAddUp,
        "INSERT INTO agentq_internal.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner)
        SELECT job_id, gen_random_uuid(), began_at, began_at, outcome, lease_owner
        FROM agentq_internal.job_attempt_log WHERE lease_token = pg_temp.token('released', 'released')",
    ),
    (
        "a failure that was not counted",
        Rule::AttemptsAddUp,
        "UPDATE agentq_internal.job SET attempts = attempts + 1 WHERE job_id = pg_temp.made('acked')",
    ),
    (
        "two attempts at once",
        Rule::OneHolder,
        "UPDATE agentq_internal.job_attempt_log SET ended_at = ended_at + interval '1 hour'
        WHERE lease_token = pg_temp.token('released', 'released')",
    ),
    (
        "a lease taken too early",
        Rule::OneHolder,
        "UPDATE agentq_internal.job_attempt_log SET ended_at = began_at + interval '0.1 s'
        WHERE lease_token = pg_temp.token('expired', 'lease_expired')",
    ),
    (
        "a worker's row without its ack",
        Rule::Together,
        "INSERT INTO torture.own_row VALUES (pg_temp.made('failed'), pg_temp.token('failed', 'failed'))",
    ),
    (
        "an ack without its worker's row",
        Rule::Together,
        "DELETE FROM torture.own_row WHERE job = pg_temp.made('acked with a row')",
    ),
    (
        "a job in two places",
        Rule::States,
        "INSERT INTO agentq_internal.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed)
        SELECT queue_id, queue_id, job_kind, priority, scheduled_at, job_id, false FROM agentq_internal.job
        WHERE job_id = pg_temp.made('acked')",
    ),
    (
        "a job in no place",
        Rule::States,
        "DELETE FROM agentq_internal.job_done WHERE job_id = pg_temp.made('cancelled')",
    ),
    (
        "a dead letter without its letter",
        Rule::States,
        "DELETE FROM agentq.job_dead_letter WHERE job_id = pg_temp.made('dead')",
    ),
    (
        "a success with a token that nobody was told of",
        Rule::NothingTwice,
        "INSERT INTO agentq_internal.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner)
        SELECT job_id, gen_random_uuid(), began_at, began_at, 'failed', lease_owner
        FROM agentq_internal.job_attempt_log WHERE lease_token = pg_temp.token('failed', 'failed')",
    ),
    (
        "a mission that has succeeded although a step has not",
        Rule::NothingLeaks,
        "UPDATE agentq_internal.mission_step SET status = 'cancelled'
        WHERE step_id = (SELECT min(step_id::text)::uuid FROM agentq_internal.mission_step WHERE mission_id = pg_temp.mission())",
    ),
    (
        "a second job of a step",
        Rule::NothingLeaks,
        "SELECT agentq.fn_job_enqueue('step');
        SELECT agentq.fn_job_ack((SELECT c->>'job_id' FROM agentq.fn_job_claim('w', 'step') c)::uuid, 'w')",
    ),
    (
        "a slot that nobody gives back",
        Rule::NothingLeaks,
        "SELECT agentq.fn_job_enqueue('limited', 'leak', p_options => '{\"limit_keys\": [\"tenant:0\"]}');
        SELECT agentq.fn_job_claim('leaker', 'limited'); DELETE FROM agentq_internal.job_lease",
    ),
    (
        "a budget that is spent for nothing",
        Rule::NothingLeaks,
        "UPDATE agentq_internal.budget_spent SET amount = amount + 1000000 WHERE job_id = pg_temp.made('limited')",
    ),
    (
        "an idempotency key that stays taken",
        Rule::NothingLeaks,
        "INSERT INTO agentq_internal.job_key (idempotency_key, job_id) VALUES ('leaked', pg_temp.made('acked'))",
    ),
    (
        "an ordering key that stays taken",
        Rule::NothingLeaks,
        "INSERT INTO agentq_internal.job_order (queue_id, ordering_key, job_id)
        SELECT queue_id, 'leaked', job_id FROM agentq_internal.job WHERE job_id = pg_temp.made('acked')",
    ),
    (
        "an end of a step that no mission is told of",
        Rule::NothingLeaks,
        "INSERT INTO agentq_internal.mission_end_due (end_id, mission_id, step_id, status)
        SELECT gen_random_uuid(), mission_id, step_id, 'succeeded' FROM agentq_internal.mission_step WHERE mission_id = pg_temp.mission() LIMIT 1",
    ),
    (
        "an effect that is done for agentq, and not outside",
        Rule::Together,
        "UPDATE agentq_internal.effect SET idempotency_key = 'nowhere' WHERE mission_id = pg_temp.trip()",
    ),
    (
        "an effect of a mission that was cancelled, and stands",
        Rule::Together,
        "UPDATE agentq.mission SET status = 'cancelled', outcome = NULL WHERE mission_id = pg_temp.trip()",
    ),
];
