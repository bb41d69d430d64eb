INSERT INTO agentq.reaction_pattern AS p (pattern, last_at, queued, unlucky, cooling, duplicates, too_deep, failed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (pattern) DO UPDATE
SET last_at = excluded.last_at, queued = p.queued + excluded.queued, unlucky = p.unlucky + excluded.unlucky,
    cooling = p.cooling + excluded.cooling, duplicates = p.duplicates + excluded.duplicates,
    too_deep = p.too_deep + excluded.too_deep, failed = p.failed + excluded.failed
