-- What the functions of this room that are written in Rust are for.

-- Steps, actions, checkpoints, sleeps and signals.
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

-- Missions.
COMMENT ON FUNCTION agentq.fn_mission_start IS 'Starts a mission from a JSON template. p_options: title, idempotency_key, source, correlation_id, trace_id, input, paused, timeout_seconds.';
COMMENT ON FUNCTION agentq.fn_mission_cancel IS 'Cancels a mission: steps that run finish, others never begin. p_mode: graceful, or compensate_then_stop.';
COMMENT ON FUNCTION agentq.fn_mission_pause IS 'Keeps further steps of a mission from becoming jobs; with p_whole, also the missions inside it and the jobs that nobody holds from running.';
COMMENT ON FUNCTION agentq.fn_mission_resume IS 'Lets a paused mission go on, and begins one that was started paused.';
COMMENT ON FUNCTION agentq.fn_mission_fork IS 'Runs a mission anew from one of its steps on, as a new mission; what comes before keeps its results. p_options: title, params by step.';
COMMENT ON FUNCTION agentq.fn_mission_wait IS 'Waits for the end of a mission, for at most 60 seconds, and answers with its result or its failure; pending: it has not ended yet.';
COMMENT ON FUNCTION agentq.fn_child_start IS 'Starts a job for a job that somebody holds, once for each name.';
COMMENT ON FUNCTION agentq.fn_child_wait IS 'Answers with what became of a child; if that has not ended, the job rests until it has, and nobody holds it.';
COMMENT ON FUNCTION agentq.fn_mission_get IS 'A mission and its steps, up to a thousand.';
COMMENT ON FUNCTION agentq.fn_mission_explain IS 'What a mission waits for: for each open step its job and what holds that, or the steps it waits for.';
COMMENT ON FUNCTION agentq.fn_mission_graph IS 'A mission as text for mermaid or graphviz, with the states as colours.';

-- Effects and their compensation.
COMMENT ON FUNCTION agentq.fn_effect_manifest_set IS 'Sets operations, compensations, inverses and idempotent types of effects, all or none, and checks the whole catalog; a null takes an entry out, p_replace everything that is not named.';
COMMENT ON FUNCTION agentq.fn_mission_retry IS 'Tries failed steps of a failed mission again, in place: one by its name, or all that failed. What the failure had stopped goes on, and so does the mission around it.';
COMMENT ON FUNCTION agentq.fn_mission_recover_stale IS 'Takes back the steps of missions that somebody holds and has made no progress with for so many minutes. Each counts as an attempt without success.';
COMMENT ON FUNCTION agentq.fn_runtime_capabilities IS 'What this runtime can do, by the names that a catalog of effects may ask for in requires.';
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
COMMENT ON FUNCTION agentq.fn_effect_skip IS 'Decides, with a reason, that an effect stays as it is and no compensation of it is tried.';
COMMENT ON FUNCTION agentq.fn_effect_get IS 'An effect, with its payload and result.';
COMMENT ON FUNCTION agentq.fn_effect_compensate IS 'Compensates the succeeded effects of a finished job or mission, in reverse order, each by a new job.';
