INSERT INTO pgboss.job (
    id, name, data, priority, start_after, singleton_key, singleton_on, dead_letter, expire_in, keep_until,
    retry_limit, retry_delay, retry_backoff, policy
)
SELECT
    id,
    j.name,
    data,
    priority,
    start_after,
    singleton_key,
    singleton_on,
    COALESCE(j.dead_letter, q.dead_letter) AS dead_letter,
    CASE
        WHEN expire_in IS NOT NULL THEN expire_in::numeric * interval '1s'
        WHEN q.expire_seconds IS NOT NULL THEN q.expire_seconds * interval '1s'
        WHEN expire_in_default IS NOT NULL THEN expire_in_default::numeric * interval '1s'
        ELSE interval '15 minutes'
        END AS expire_in,
    CASE
        WHEN right(keep_until, 1) = 'Z' THEN CAST(keep_until AS timestamp with time zone)
        ELSE start_after + CAST(COALESCE(keep_until, (q.retention_minutes * 60)::text, keep_until_default, '14 days') AS interval)
        END AS keep_until,
    COALESCE(j.retry_limit, q.retry_limit, retry_limit_default, 2) AS retry_limit,
    CASE
        WHEN COALESCE(j.retry_backoff, q.retry_backoff, retry_backoff_default, false)
        THEN GREATEST(COALESCE(j.retry_delay, q.retry_delay, retry_delay_default), 1)
        ELSE COALESCE(j.retry_delay, q.retry_delay, retry_delay_default, 0)
        END AS retry_delay,
    COALESCE(j.retry_backoff, q.retry_backoff, retry_backoff_default, false) AS retry_backoff,
    q.policy
FROM (
    SELECT
        COALESCE(NULL::uuid, gen_random_uuid()) AS id,
        'k' AS name,
        :payload::jsonb AS data,
        COALESCE('0'::int, 0) AS priority,
        CASE
            WHEN right(NULL::text, 1) = 'Z' THEN CAST(NULL::text AS timestamp with time zone)
            ELSE now() + CAST(COALESCE(NULL::text, '0') AS interval)
            END AS start_after,
        NULL::text AS singleton_key,
        CASE
            WHEN NULL::integer IS NOT NULL
            THEN 'epoch'::timestamp + '1 second'::interval
                * (NULL::integer * floor((date_part('epoch', now()) + 0) / NULL::integer))
            ELSE NULL
            END AS singleton_on,
        NULL::text AS dead_letter,
        NULL::text AS expire_in,
        NULL::text AS expire_in_default,
        NULL::text AS keep_until,
        NULL::text AS keep_until_default,
        NULL::int AS retry_limit,
        NULL::int AS retry_limit_default,
        NULL::int AS retry_delay,
        NULL::int AS retry_delay_default,
        NULL::bool AS retry_backoff,
        NULL::bool AS retry_backoff_default
) j JOIN pgboss.queue q ON j.name = q.name
ON CONFLICT DO NOTHING
RETURNING id;
