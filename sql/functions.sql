-- What the functions written in Rust are for, and that nothing is for PUBLIC.
COMMENT ON FUNCTION agentq.fn_clock_now IS 'agentq''s time: the real one, unless a test moved this session''s clock with agentq.clock_offset.';
COMMENT ON FUNCTION agentq.fn_version IS 'Version of the library that is loaded.';
COMMENT ON FUNCTION agentq.fn_config_accepts IS 'Whether a configuration key is known and accepts a value.';
COMMENT ON FUNCTION agentq.fn_config_defaults IS 'Every configuration key with its default.';
COMMENT ON FUNCTION agentq.fn_config_get IS 'Value in force of a configuration key.';
COMMENT ON FUNCTION agentq.fn_config_set IS 'Sets a configuration key; an unknown key or a value it does not accept is refused.';
COMMENT ON FUNCTION agentq.fn_settings_changed IS 'Trigger: makes every session read the settings and queues again.';
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
COMMENT ON FUNCTION agentq.fn_job_get IS 'Everything known of one job, with its attempts.';
COMMENT ON FUNCTION agentq.fn_dead_letter_triage IS 'Records what is being done about a dead letter: its triage, and with p_resolution its status, assignee and notes.';
COMMENT ON FUNCTION agentq.fn_dead_letter_redrive IS 'Enqueues dead letters anew, one or by filter, with the settings and in the order of the first jobs; p_options limits how many, and how many per second.';
COMMENT ON FUNCTION agentq.fn_dead_letter_purge IS 'Removes dead letters older than an age: those that are closed, resolved or abandoned, or those that a filter names.';
COMMENT ON FUNCTION agentq.fn_job_replay IS 'Runs a finished job once more as a new one: from the beginning, its last checkpoint or a step.';
COMMENT ON FUNCTION agentq.fn_job_reconcile IS 'Says what became of a job whose outcome was unknown: done, not_done, or retry.';
COMMENT ON FUNCTION agentq.fn_error_class_defaults IS 'Every built-in class of errors.';
COMMENT ON FUNCTION agentq.fn_error_class_set IS 'Adds a class of errors or changes one: whether another try may help, and its other names.';
COMMENT ON FUNCTION agentq.fn_error_class_remove IS 'Removes a class of errors that is not built in.';
COMMENT ON FUNCTION agentq.fn_retry_policy_set IS 'Sets how failed jobs of a kind, of a queue, or of all are tried again; a null takes a rule away.';
COMMENT ON FUNCTION agentq.fn_limit_set IS 'Sets how many jobs with a key may be held at once, may wait, and may be begun in a time, and its share where jobs take turns; a null takes a limit away. Jobs that are held already count.';
COMMENT ON FUNCTION agentq.fn_limit_report IS 'Tells what the other side said of a key, such as a provider: nobody before p_retry_at, or p_remaining is left. All workers heed it at once.';
COMMENT ON FUNCTION agentq.fn_limit_gauge IS 'What is left of the rate of a key, and when it opens for a job of this weight; NULL: nothing is known of it.';
COMMENT ON FUNCTION agentq.fn_budget_set IS 'Sets what jobs with a key may cost in a period: p_budget has amount, and when_exhausted wait or refuse.';
COMMENT ON FUNCTION agentq.fn_budget_remove IS 'Removes a budget.';
COMMENT ON FUNCTION agentq.fn_job_usage IS 'Tells what a held job has really used since its holder last told, by unit, in place of what was reserved.';
COMMENT ON FUNCTION agentq.fn_admission_check IS 'Whether a job would be let in now: accept, defer with a time to come back, or refuse, with the reason. Enqueues ask the same.';
COMMENT ON FUNCTION agentq.fn_limit_remove IS 'Removes a limit.';
COMMENT ON FUNCTION agentq.fn_limit_counted IS 'Slots of a limit in use, as shared memory counts them; NULL: it does not.';
COMMENT ON FUNCTION agentq.fn_retry_policy_remove IS 'Removes a retry policy.';
COMMENT ON FUNCTION agentq.fn_queue_set IS 'Makes a queue, or changes its defaults.';
COMMENT ON FUNCTION agentq.fn_queue_pause IS 'Stops giving out jobs of a queue; those already held go on.';
COMMENT ON FUNCTION agentq.fn_queue_resume IS 'Gives out jobs of a queue again.';
COMMENT ON FUNCTION agentq.fn_queue_heartbeat_tick IS 'An executor''s sign of life.';
COMMENT ON FUNCTION agentq.fn_queue_stale_check IS 'Which executors are fresh, in warning or stale. Reads only, and works on a standby.';

COMMENT ON FUNCTION agentq.fn_schedule_set IS 'Makes a schedule, or changes it: five cron fields, a nickname or @every, in a time zone. p_missed: skip, once or backfill.';
COMMENT ON FUNCTION agentq.fn_schedule_pause IS 'Stops a schedule.';
COMMENT ON FUNCTION agentq.fn_schedule_resume IS 'Lets a schedule go on with its next slot; those that passed meanwhile are left out.';
COMMENT ON FUNCTION agentq.fn_schedule_remove IS 'Removes a schedule. Jobs it has enqueued stay.';
COMMENT ON FUNCTION agentq.fn_schedule_upcoming IS 'The next times at which a cron rule fires.';
COMMENT ON FUNCTION agentq.fn_handler_register IS 'Has the server run jobs of a kind itself: p_sql gets the job as $1 and runs with the rights of p_role.';
COMMENT ON FUNCTION agentq.fn_handler_remove IS 'Stops running jobs of a kind in the server.';
COMMENT ON FUNCTION agentq.fn_engine_tick IS 'Runs all chores, or one, once: for servers without the engine.';
COMMENT ON FUNCTION agentq.fn_engine_announce IS 'Tells the launcher that this database has the extension.';
COMMENT ON FUNCTION agentq.fn_engine_chore_defaults IS 'The chores that the library knows.';
COMMENT ON FUNCTION agentq.fn_engine_live IS 'The last run of each chore, as the engine remembers it.';
COMMENT ON FUNCTION agentq.fn_engine_state IS 'How the engine of this database stands.';

-- The events room.
COMMENT ON FUNCTION agentq.fn_event_emit IS 'Writes an event: what happened, to what, and what else is to be known. With a dedupe_key in p_options it is written once.';
COMMENT ON FUNCTION agentq.fn_event_read IS 'The events after a place in the log, in order; with p_wait it waits for the next. Go on with next_after.';
COMMENT ON FUNCTION agentq.fn_event_verify IS 'Checks the log and its events: the first row that was altered, removed, put in or moved.';

-- The flow room: steps, actions, signals.
COMMENT ON FUNCTION agentq.fn_step_begin IS 'Begins a step of a held job by name: run it, or done with the result of the run that completed it, or unknown_outcome. p_options: index or repeat for loops, ordered, idempotent.';
COMMENT ON FUNCTION agentq.fn_step_complete IS 'Stores the result of a step that this attempt has begun: it is not run again.';
COMMENT ON FUNCTION agentq.fn_step_fail IS 'Says that a step was not done, and why: it runs again when it is begun again.';
COMMENT ON FUNCTION agentq.fn_step_resolve IS 'Says what became of a step whose outcome is unknown: done, with its result, or not_done. Without p_lease_owner for a job that nobody holds.';
COMMENT ON FUNCTION agentq.fn_action_begin IS 'Begins an action that must happen once: won, done with its result, or in_progress by whom until when. p_options: lease_seconds, ttl, job_id with lease_token.';
COMMENT ON FUNCTION agentq.fn_action_finish IS 'Stores the result of an action that this holder has won; it is kept for 7 days, or the ttl it was begun with.';
COMMENT ON FUNCTION agentq.fn_action_fail IS 'Says that an action was not done, and why: the next to begin it wins.';
COMMENT ON FUNCTION agentq.fn_action_key IS 'A key for an action: the hash of a job, the name of a step and inputs.';
COMMENT ON FUNCTION agentq.fn_checkpoint_save IS 'Saves the checkpoint of a held job, in place of the one before, without extending its lease.';
COMMENT ON FUNCTION agentq.fn_checkpoint_load IS 'The last checkpoint of a job, and when it was saved.';
COMMENT ON FUNCTION agentq.fn_job_sleep IS 'Puts a held job to sleep until a time and frees its worker; the attempt that comes after is told that it woke. Costs no attempt.';
COMMENT ON FUNCTION agentq.fn_signal_send IS 'Sends a signal: to the job that has waited longest for its name and key, or to the next that will. p_options: dedupe_key, ttl in seconds.';
COMMENT ON FUNCTION agentq.fn_signal_wait IS 'Waits for a signal: received with its payload, timed_out, or waiting: the job sleeps until it comes. p_options: step, index or repeat, ordered, wait_seconds in the server.';

-- The flow room: missions.
COMMENT ON FUNCTION agentq.fn_mission_start IS 'Starts a mission from a JSON template. p_options: title, idempotency_key, source, correlation_id, trace_id, input, paused, timeout_seconds.';
COMMENT ON FUNCTION agentq.fn_mission_cancel IS 'Cancels a mission: steps that run finish, others never begin. p_mode: graceful, or compensate_then_stop.';
COMMENT ON FUNCTION agentq.fn_mission_pause IS 'Pauses a mission: no further step becomes a job; those that are jobs go on.';
COMMENT ON FUNCTION agentq.fn_mission_resume IS 'Lets a paused mission go on, and begins one that was started paused.';
COMMENT ON FUNCTION agentq.fn_mission_fork IS 'Runs a mission anew from one of its steps on, as a new mission; what comes before keeps its results. p_options: title, params by step.';
COMMENT ON FUNCTION agentq.fn_mission_get IS 'A mission and its steps, up to a thousand.';
COMMENT ON FUNCTION agentq.fn_mission_explain IS 'What a mission waits for: for each open step its job and what holds that, or the steps it waits for.';
COMMENT ON FUNCTION agentq.fn_mission_graph IS 'A mission as text for mermaid or graphviz, with the states as colours.';

-- The flow room: effects.
COMMENT ON FUNCTION agentq.fn_effect_manifest_set IS 'Sets operations, compensations, inverses and idempotent types of effects, all or none, and checks the whole catalog; a null takes an entry out, p_replace everything that is not named.';
COMMENT ON FUNCTION agentq.fn_effect_manifest_check IS 'What is wrong with the catalog, or would be with p_manifest set: faults with path, chain and hint. Changes nothing.';
COMMENT ON FUNCTION agentq.fn_effect_operation_set IS 'Sets one operation: what its jobs change outside, and whether that must be compensated.';
COMMENT ON FUNCTION agentq.fn_effect_operation_remove IS 'Takes an operation out of the catalog.';
COMMENT ON FUNCTION agentq.fn_effect_compensation_set IS 'Sets one compensation: of which operation, what it changes itself, and which jobs carry it out.';
COMMENT ON FUNCTION agentq.fn_effect_compensation_remove IS 'Takes a compensation out of the catalog.';
COMMENT ON FUNCTION agentq.fn_effect_plan IS 'Writes effects of a held job down before they are done, in order; a later attempt finds them by their keys.';
COMMENT ON FUNCTION agentq.fn_effect_begin IS 'Asks whether to carry out an effect: run, done with its result, in_progress, unknown_outcome or undone.';
COMMENT ON FUNCTION agentq.fn_effect_finish IS 'Ends an effect with success, and keeps its result.';
COMMENT ON FUNCTION agentq.fn_effect_fail IS 'Ends an effect that did not happen; it may be begun again.';
COMMENT ON FUNCTION agentq.fn_effect_reconcile IS 'Says what became of an effect whose outcome was unknown: done or not_done.';
COMMENT ON FUNCTION agentq.fn_effect_get IS 'An effect, with its payload and result.';
COMMENT ON FUNCTION agentq.fn_effect_compensate IS 'Compensates the succeeded effects of a finished job or mission, in reverse order, each by a job of its own.';

-- The governance room.
COMMENT ON FUNCTION agentq.fn_policy_accepts IS 'Whether a policy may have a value: those of agentq have a shape, others may hold what they like.';
COMMENT ON FUNCTION agentq.fn_policy_set IS 'Sets a policy: a new version, kept for good, and an audit event. A value that does not have the policy''s shape is refused with the path of what is wrong.';
COMMENT ON FUNCTION agentq.fn_policy_get IS 'A policy in force, or one of its versions. Version 0 is the default of a policy that nobody has set.';
COMMENT ON FUNCTION agentq.fn_policy_history IS 'The versions of a policy, the newest first: what it said, since when, by whom and why.';
COMMENT ON FUNCTION agentq.fn_proposal_create IS 'Proposes a mission: gated, and approved at once or left for a person, with the policies that were gone by. The same key is the same proposal.';
COMMENT ON FUNCTION agentq.fn_proposal_gate IS 'What the gate would say of a proposal now: caps per day and source, number of steps, and the policy''s hook. Counts nothing.';
COMMENT ON FUNCTION agentq.fn_proposal_is_auto_approvable IS 'Whether a proposal needs no person, by the kinds of its steps, its risk and its source.';
COMMENT ON FUNCTION agentq.fn_template_step_kinds IS 'Every kind of work that a mission template asks for, also in missions within steps.';
COMMENT ON FUNCTION agentq.fn_proposal_approve IS 'Approves a pending proposal and starts its mission.';
COMMENT ON FUNCTION agentq.fn_proposal_reject IS 'Rejects a pending proposal, with the reason.';
COMMENT ON FUNCTION agentq.fn_proposal_get IS 'Everything known of one proposal.';
COMMENT ON FUNCTION agentq.fn_ops_tick IS 'One turn of the loop by hand: recovers leases, reads events, makes proposals. For servers without the engine.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentq FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA agentq FROM PUBLIC;

SELECT agentq.fn_engine_announce();

DO $$
BEGIN
    IF current_setting('shared_preload_libraries') !~ '(^|[ ,"/])agentq($|[ ,".])' THEN
        RAISE NOTICE 'agentq is not in shared_preload_libraries; everything works, but there is no engine, and claims keep no scan marks'
            USING HINT = 'Add agentq to shared_preload_libraries and restart the server; until then, call agentq.fn_engine_tick() from a scheduler.';
    END IF;
END $$;
