-- The client sends the jobs as JSON and has them read by json_to_recordset; here they are made from
-- the payloads, which is less work.
WITH defaults AS (
    SELECT
        NULL::text AS expire_in,
        NULL::text AS keep_until,
        NULL::int AS retry_limit,
        NULL::int AS retry_delay,
        NULL::bool AS retry_backoff
)
INSERT INTO pgboss.job (
    id, name, data, priority, start_after, singleton_key, singleton_on, dead_letter, expire_in, keep_until,
    retry_limit, retry_delay, retry_backoff, policy
)
SELECT
    COALESCE(id, gen_random_uuid()) AS id,
    j.name,
    data,
    COALESCE(priority, 0) AS priority,
    j.start_after,
    "singletonKey" AS singleton_key,
    CASE
        WHEN "singletonSeconds" IS NOT NULL
        THEN 'epoch'::timestamp + '1 second'::interval
            * ("singletonSeconds" * floor(date_part('epoch', now()) / "singletonSeconds"))
        ELSE NULL
        END AS singleton_on,
    COALESCE("deadLetter", q.dead_letter) AS dead_letter,
    CASE
        WHEN "expireInSeconds" IS NOT NULL THEN "expireInSeconds"::numeric * interval '1s'
        WHEN q.expire_seconds IS NOT NULL THEN q.expire_seconds * interval '1s'
        WHEN defaults.expire_in IS NOT NULL THEN defaults.expire_in::numeric * interval '1s'
        ELSE interval '15 minutes'
        END AS expire_in,
    CASE
        WHEN "keepUntil" IS NOT NULL THEN "keepUntil"
        ELSE COALESCE(j.start_after, now())
            + CAST(COALESCE((q.retention_minutes * 60)::text, defaults.keep_until, '14 days') AS interval)
        END AS keep_until,
    COALESCE("retryLimit", q.retry_limit, defaults.retry_limit, 2),
    CASE
        WHEN COALESCE("retryBackoff", q.retry_backoff, defaults.retry_backoff, false)
        THEN GREATEST(COALESCE("retryDelay", q.retry_delay, defaults.retry_delay), 1)
        ELSE COALESCE("retryDelay", q.retry_delay, defaults.retry_delay, 0)
        END AS retry_delay,
    COALESCE("retryBackoff", q.retry_backoff, defaults.retry_backoff, false) AS retry_backoff,
    q.policy
FROM (
    SELECT *,
        CASE
            WHEN right("startAfter", 1) = 'Z' THEN CAST("startAfter" AS timestamp with time zone)
            ELSE now() + CAST(COALESCE("startAfter", '0') AS interval)
            END AS start_after
    FROM (
        SELECT
            NULL::uuid AS id,
            'k' AS name,
            NULL::integer AS priority,
            data,
            NULL::text AS "startAfter",
            NULL::integer AS "retryLimit",
            NULL::integer AS "retryDelay",
            NULL::boolean AS "retryBackoff",
            NULL::text AS "singletonKey",
            NULL::integer AS "singletonSeconds",
            NULL::integer AS "expireInSeconds",
            NULL::timestamp with time zone AS "keepUntil",
            NULL::text AS "deadLetter"
        FROM jsonb_array_elements(:payloads::jsonb) data
    ) x
) j
JOIN pgboss.queue q ON j.name = q.name,
    defaults
ON CONFLICT DO NOTHING;
