-- A job through its whole life: made, repeated, claimed, done; and one that fails into the dead letters.
\set VERBOSITY terse
CREATE EXTENSION agentq;

-- Enqueue, and enqueue again with the same key.
SELECT r->>'ok' AS ok, r->>'code' AS code, r->>'state' AS state, r->>'queue' AS queue
FROM agentq.fn_job_enqueue('smoke.good', 'smoke-1', p_payload_json => '{"n": 1}') r;
SELECT r->>'code' AS code, r->>'duplicate' AS duplicate
FROM agentq.fn_job_enqueue('smoke.good', 'smoke-1') r;

-- Claim, start, ack.
SELECT r->>'code' AS code, r->>'job_kind' AS job_kind, r->'payload_json' AS payload, r->>'attempt' AS attempt,
       r->>'job_id' AS job_id
FROM agentq.fn_job_claim('smoke-worker') r \gset claim_
SELECT :'claim_code' AS code, :'claim_job_kind' AS job_kind, :'claim_payload' AS payload, :'claim_attempt' AS attempt;
SELECT agentq.fn_job_start(:'claim_job_id', 'smoke-worker')->>'code' AS start;
SELECT agentq.fn_job_ack(:'claim_job_id', 'smoke-worker', '{"done": true}')->>'code' AS ack;

-- Nothing is left, and a second ack is refused.
SELECT agentq.fn_job_claim('smoke-worker')->>'code' AS claim;
SELECT r->>'ok' AS ok, r->>'code' AS code FROM agentq.fn_job_ack(:'claim_job_id', 'smoke-worker') r;

-- A job with two attempts: the first failure waits, the second is the last.
SELECT agentq.fn_job_enqueue('smoke.bad', 'smoke-2', p_max_attempts => 2)->>'job_id' AS job_id \gset bad_
SELECT agentq.fn_job_claim('smoke-worker')->>'job_kind' AS claim;
SELECT r->>'code' AS code, r->>'attempts' AS attempts, r->>'backoff_sec' AS backoff_sec
FROM agentq.fn_job_fail_or_retry(:'bad_job_id', 'smoke-worker', 'broken') r;
SELECT agentq.fn_job_claim('smoke-worker')->>'code' AS claim_too_early;
UPDATE agentq.job_queue SET scheduled_at = agentq.fn_clock_now() WHERE job_id = :'bad_job_id';
SELECT agentq.fn_job_claim('smoke-worker')->>'attempt' AS attempt;
SELECT r->>'code' AS code, r->>'attempts' AS attempts
FROM agentq.fn_job_fail_or_retry(:'bad_job_id', 'smoke-worker', 'broken again') r;

-- Where everything ended up.
SELECT job_kind, state, attempts, max_attempts, last_error FROM agentq.job_queue ORDER BY job_kind;
SELECT j.job_kind, a.attempt_no, a.outcome, a.error
FROM agentq.job_attempt a JOIN agentq.job_queue j USING (job_id) ORDER BY j.job_kind, a.attempt_no;
SELECT job_kind, final_error, triage_status FROM agentq.job_dead_letter;
SELECT * FROM agentq.fn_queue_verify();
