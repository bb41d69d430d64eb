-- What the functions of this room that are written in Rust are for.

-- Jobs, from their enqueue to their end.
COMMENT ON FUNCTION agentq.fn_job_enqueue IS 'Enqueues a job with the caller''s transaction. A key in use by an unfinished job returns that job with duplicate: true.';
COMMENT ON FUNCTION agentq.fn_job_enqueue_batch IS 'Enqueues up to 10,000 jobs in one call and says of each: enqueued, duplicate, or refused with the reason.';
COMMENT ON FUNCTION agentq.fn_job_enqueue_payloads IS 'Enqueues one job for each payload, up to 10,000, all of one kind and with the same options; answers as fn_job_enqueue_batch.';
COMMENT ON FUNCTION agentq.fn_job_claim IS 'Leases the best ready job to an owner: priority, then schedule, then age. Answers with the job and its lease token, or with code empty; with p_wait it waits for one first.';
COMMENT ON FUNCTION agentq.fn_job_claim_batch IS 'Leases up to p_limit jobs in one call; with p_wait it waits until there is one, and with the option acks the answer has the list that acks them.';
COMMENT ON FUNCTION agentq.fn_job_start IS 'Says that the holder has begun: leased becomes in_progress.';
COMMENT ON FUNCTION agentq.fn_job_heartbeat IS 'Extends the lease, may store a checkpoint, and tells the holder whether a cancel was requested.';
COMMENT ON FUNCTION agentq.fn_job_ack IS 'Finishes a held job as succeeded, in the caller''s transaction.';
COMMENT ON FUNCTION agentq.fn_job_ack_batch IS 'Finishes many held jobs as succeeded in one call.';
COMMENT ON FUNCTION agentq.fn_job_ack_and_claim IS 'Finishes a held job and claims the next, in one call and one commit. With no job id it only claims.';
COMMENT ON FUNCTION agentq.fn_job_ack_and_claim_batch IS 'Finishes many held jobs and claims the next ones, in one call and one commit. With no list it only claims.';
COMMENT ON FUNCTION agentq.fn_job_fail_or_retry IS 'Ends an attempt without success. Verdict fail: the job waits as its retry policy or p_retry_after says, or ends in the dead letters; cancel: no other try, with a dead letter; discard: no other try and no dead letter; snooze: later, at no cost.';
COMMENT ON FUNCTION agentq.fn_job_release IS 'Gives a held job back at once, without costing an attempt.';
COMMENT ON FUNCTION agentq.fn_job_snooze IS 'Gives a held job back for later, without costing an attempt.';
COMMENT ON FUNCTION agentq.fn_job_cancel IS 'Cancels a job: at once if nobody holds it, else its holder learns at its next heartbeat.';
COMMENT ON FUNCTION agentq.fn_job_change IS 'Changes priority, schedule, attempts, payload or refs of a job that nobody holds.';
COMMENT ON FUNCTION agentq.fn_job_move_to_dead_letter IS 'Gives a job up, held or not, and keeps it in the dead letters.';
COMMENT ON FUNCTION agentq.fn_job_purge IS 'Removes jobs that finished longer ago than the given age, at most p_limit. Dead letters stay.';
COMMENT ON FUNCTION agentq.fn_job_wait IS 'Waits for the end of a job, for at most 60 seconds, and answers with its result or its failure; pending: it has not ended yet.';
COMMENT ON FUNCTION agentq.fn_job_get IS 'Everything known of one job, with its attempts.';
COMMENT ON FUNCTION agentq.fn_job_replay IS 'Runs a finished job once more as a new one: from the beginning, its last checkpoint or a step.';
COMMENT ON FUNCTION agentq.fn_job_reconcile IS 'Says what became of a job whose outcome was unknown: done, not_done, or retry.';

-- Dead letters.
COMMENT ON FUNCTION agentq.fn_dead_letter_triage IS 'Records what is being done about a dead letter: its triage, and with p_resolution its status, assignee and notes.';
COMMENT ON FUNCTION agentq.fn_dead_letter_redrive IS 'Enqueues dead letters anew, one or by filter, with the settings and in the order of the first jobs; p_options limits how many, and how many per second.';
COMMENT ON FUNCTION agentq.fn_dead_letter_purge IS 'Removes dead letters older than an age: those that are closed, resolved or abandoned, or those that a filter names.';

-- What follows a failure.
COMMENT ON FUNCTION agentq_internal.fn_error_class_defaults IS 'Every built-in class of errors.';
COMMENT ON FUNCTION agentq.fn_error_class_set IS 'Adds a class of errors or changes one: whether another try may help, and its other names.';
COMMENT ON FUNCTION agentq.fn_error_class_remove IS 'Removes a class of errors that is not built in.';
COMMENT ON FUNCTION agentq.fn_retry_policy_set IS 'Sets how failed jobs of a kind, of a queue, or of all are tried again; a null takes a rule away.';
COMMENT ON FUNCTION agentq.fn_retry_policy_remove IS 'Removes a retry policy.';

-- Limits, rates and budgets, and who is let in.
COMMENT ON FUNCTION agentq.fn_limit_set IS 'Sets how many jobs with a key may be held at once, may wait, and may be begun in a time, and its share where jobs take turns; a null takes a limit away. Jobs that are held already count.';
COMMENT ON FUNCTION agentq.fn_limit_remove IS 'Removes a limit.';
COMMENT ON FUNCTION agentq.fn_limit_report IS 'Tells what the other side said of a key, such as a provider: that it lets nobody through before p_retry_at, or that p_remaining is left. All workers heed it at once. A rule must be about the key, and a day ahead is the most.';
COMMENT ON FUNCTION agentq.fn_limit_gauge IS 'What is left of the rate of a key, and when it opens for a job of this weight; NULL: nothing is known of it.';
COMMENT ON FUNCTION agentq.fn_budget_set IS 'Sets what jobs with a key may cost in a period: p_budget has amount, and when_exhausted wait or refuse.';
COMMENT ON FUNCTION agentq.fn_budget_remove IS 'Removes a budget.';
COMMENT ON FUNCTION agentq.fn_job_usage IS 'Tells what a held job has really used since its holder last told, by unit, in place of what was reserved.';
COMMENT ON FUNCTION agentq.fn_admission_check IS 'Whether a job would be let in now: accept, defer with a time to come back, or refuse, with the reason. Every enqueue asks this, too.';
COMMENT ON FUNCTION agentq_internal.fn_limit_counted IS 'Slots of a limit in use, as the board in shared memory counts them; NULL: it does not.';

-- Queues and executors.
COMMENT ON FUNCTION agentq.fn_queue_set IS 'Makes a queue, or changes its defaults.';
COMMENT ON FUNCTION agentq.fn_queue_pause IS 'Stops giving out jobs of a queue; those already held go on.';
COMMENT ON FUNCTION agentq.fn_queue_resume IS 'Gives out jobs of a queue again.';
COMMENT ON FUNCTION agentq.fn_queue_heartbeat_tick IS 'An executor''s sign of life.';
COMMENT ON FUNCTION agentq.fn_queue_stale_check IS 'Which executors are fresh, in warning or stale. Reads only, and works on a standby.';

COMMENT ON FUNCTION agentq.fn_limit_preset IS 'Sets limits that suit a fleet of agents, where there are none yet: 200 jobs at once, 10 for each venture, 20 for each stage, 5, 10 and 1 for each CEO handler, VP handler and crew executor.';

-- Schedules and handlers.
COMMENT ON FUNCTION agentq.fn_schedule_set IS 'Makes a schedule, or changes it: five cron fields, a nickname or @every, in a time zone. p_missed: skip, once or backfill.';
COMMENT ON FUNCTION agentq.fn_schedule_pause IS 'Stops a schedule.';
COMMENT ON FUNCTION agentq.fn_schedule_resume IS 'Lets a schedule go on with its next slot; those that passed meanwhile are left out.';
COMMENT ON FUNCTION agentq.fn_schedule_remove IS 'Removes a schedule. Jobs it has enqueued stay.';
COMMENT ON FUNCTION agentq.fn_schedule_upcoming IS 'The next times at which a cron rule fires.';
COMMENT ON FUNCTION agentq.fn_handler_register IS 'Has the server run jobs of a kind itself: p_sql gets the job as $1 and runs with the rights of p_role.';
COMMENT ON FUNCTION agentq.fn_handler_remove IS 'Stops running jobs of a kind in the server.';
