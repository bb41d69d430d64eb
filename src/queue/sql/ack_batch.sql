WITH item AS MATERIALIZED (
    SELECT DISTINCT ON (job_id) job_id, lease_token, result
    FROM (
        SELECT CASE WHEN jsonb_typeof(job) = 'string' THEN job #>> '{}' ELSE job->>'job_id' END::uuid AS job_id,
               CASE WHEN jsonb_typeof(job) = 'object' THEN job->>'lease_token' END::uuid AS lease_token,
               CASE WHEN jsonb_typeof(job) = 'object' THEN job->'result' END AS result
        FROM jsonb_array_elements($2) AS a(job)
    ) i
    ORDER BY job_id
), locked AS MATERIALIZED (
    SELECT i.job_id, i.result, l.tid
    FROM item i LEFT JOIN LATERAL (
        SELECT ctid AS tid FROM agentq.job_lease
        WHERE job_id = i.job_id AND lease_owner = $1 AND (i.lease_token IS NULL OR lease_token = i.lease_token)
        FOR UPDATE) l ON true
), gone AS (
    DELETE FROM agentq.job_lease l USING locked WHERE l.ctid = locked.tid
    RETURNING l.job_id, l.lease_token, l.picked_at, l.lease_owner, l.keyed, locked.result
), freed AS (
    DELETE FROM agentq.job_key k USING gone JOIN agentq.job j ON j.job_id = gone.job_id
    WHERE gone.keyed AND k.idempotency_key = j.idempotency_key AND k.job_id = j.job_id
), done AS (
    INSERT INTO agentq.job_done (job_id, lease_token, finished_at, picked_at, state, outcome, lease_owner, result)
    SELECT job_id, lease_token, $3, picked_at, 'succeeded', 'succeeded', lease_owner, result FROM gone
)
SELECT jsonb_build_object('ok', true, 'code', 'acked', 'acked', count(tid), 'lease_lost', count(*) - count(tid),
    'jobs', coalesce(jsonb_agg(jsonb_build_object('job_id', job_id,
        'code', CASE WHEN tid IS NULL THEN 'lease_lost' ELSE 'succeeded' END) ORDER BY job_id), '[]'))
FROM locked
