//! What may be done to a job: each operation with the states in which it means something, and its call.
//!
//! In a call `{job}` and `{token}` are those of the job, `{letter}` is its dead letter, `{head}` the job in front of
//! it, `{n}` the number of the schedule, which is in every name and key, and `{me}` the session's own name.

/// Where a job may be when two sessions come to it.
pub const STATES: [&str; 11] =
    ["ready", "waiting", "due", "late", "blocked", "held", "expired", "asleep", "parked", "succeeded", "dead"];

/// Everybody may come at any time.
const ANY: &[&str] =
    &["ready", "waiting", "due", "late", "blocked", "held", "expired", "asleep", "parked", "succeeded", "dead"];
const UNFINISHED: &[&str] = &["ready", "waiting", "due", "late", "blocked", "held", "expired", "asleep", "parked"];
const HELD: &[&str] = &["held", "expired"];
const FINISHED: &[&str] = &["succeeded", "dead"];

/// The job of one schedule.
pub struct Subject {
    pub number: String,
    pub job: String,
    pub token: String,
    pub letter: String,
    pub head: String,
}

pub struct Operation {
    pub name: &'static str,
    pub states: &'static [&'static str],
    call: &'static str,
}

impl Operation {
    /// The call, about this job.
    pub fn sql(&self, about: &Subject, me: &str) -> String {
        let call = self.call.replace("{job}", &about.job).replace("{token}", &about.token);
        let call = call.replace("{letter}", &about.letter).replace("{head}", &about.head);
        format!("SELECT agentq.{}", call.replace("{n}", &about.number).replace("{me}", me))
    }

    pub fn fits(&self, state: &str) -> bool {
        self.states.contains(&state)
    }

    /// The function that it calls; a tick with its chore.
    pub fn function(&self) -> String {
        let (function, _) = self.call.split_once('(').expect("a call");
        if function == "fn_engine_tick" { self.call.to_owned() } else { function.to_owned() }
    }

    /// Whether it has something locked that the other would take.
    pub fn locks_for(&self, other: &Operation) -> bool {
        let letter_alone = self.name == "triage" && other.name == "purge";
        !letter_alone && !self.is_one_of(&["job_get", "enqueue_key", "enqueue_order"])
    }

    pub fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.name)
    }
}

const fn op(name: &'static str, states: &'static [&'static str], call: &'static str) -> Operation {
    Operation { name, states, call }
}

pub const OPERATIONS: &[Operation] = &[
    op("claim", UNFINISHED, "fn_job_claim('{me}', 'k{n}')"),
    op("start", HELD, "fn_job_start('{job}', 'w', '{token}')"),
    op("heartbeat", HELD, "fn_job_heartbeat('{job}', 'w', 7200, p_lease_token => '{token}')"),
    op("ack", HELD, "fn_job_ack('{job}', 'w', p_lease_token => '{token}')"),
    op("ack_and_claim", &["held"], "fn_job_ack_and_claim('{job}', 'w', NULL, '{token}', 'k{n}')"),
    op("ack_batch", HELD, r#"fn_job_ack_batch('w', '[{"job_id": "{job}", "lease_token": "{token}"}]')"#),
    op("fail_or_retry", HELD, "fn_job_fail_or_retry('{job}', 'w', 'oh', NULL, '{token}', '1 hour')"),
    op("fail_for_good", &["held"], "fn_job_fail_or_retry('{job}', 'w', 'oh', NULL, '{token}', NULL, 'discard')"),
    op("release", HELD, "fn_job_release('{job}', 'w', '{token}')"),
    op("snooze", &["held"], "fn_job_snooze('{job}', 'w', agentq.fn_clock_now() + interval '1 hour', '{token}')"),
    op("sleep", HELD, "fn_job_sleep('{job}', 'w', p_for => '1 hour', p_name => 'nap', p_lease_token => '{token}')"),
    op("signal_wait", &["held"], "fn_signal_wait('{job}', 'w', 's{n}', p_lease_token => '{token}')"),
    op("signal_send", &["held", "asleep"], "fn_signal_send('s{n}')"),
    op("step_begin", &["held"], "fn_step_begin('{job}', 'w', 'second', p_lease_token => '{token}')"),
    op("step_begin_another", &["held"], "fn_step_begin('{job}', 'w', 'third', p_lease_token => '{token}')"),
    op("step_complete", HELD, "fn_step_complete('{job}', 'w', 'first', p_lease_token => '{token}')"),
    op("checkpoint_save", HELD, "fn_checkpoint_save('{job}', 'w', '{}', '{token}')"),
    op(
        "action_begin",
        HELD,
        r#"fn_action_begin('a{n}', 'pay', p_options => '{"job_id": "{job}", "lease_token": "{token}"}')"#,
    ),
    op("cancel", ANY, "fn_job_cancel('{job}', 'no more')"),
    op("change", UNFINISHED, r#"fn_job_change('{job}', '{"priority": 7}')"#),
    op("move_to_dead_letter", ANY, "fn_job_move_to_dead_letter('{job}', 'given up')"),
    op("reap", HELD, "fn_engine_tick('reap_leases')"),
    op("promote", &["waiting", "due"], "fn_engine_tick('promote_due')"),
    op("deadlines", &["late"], "fn_engine_tick('enforce_deadlines')"),
    op("ack_head", &["blocked"], "fn_job_ack('{head}', 'w')"),
    op("cancel_head", &["blocked"], "fn_job_cancel('{head}')"),
    op("reconcile_done", &["parked"], "fn_job_reconcile('{job}', 'done')"),
    op("reconcile_retry", &["parked"], "fn_job_reconcile('{job}', 'retry')"),
    op("replay", FINISHED, "fn_job_replay('{job}')"),
    op("redrive", &["dead"], r#"fn_dead_letter_redrive('{letter}', p_options => '{"allow_non_idempotent": true}')"#),
    op("triage", &["dead"], "fn_dead_letter_triage('{letter}', 'acknowledged')"),
    op("letter_purge", &["dead"], "fn_dead_letter_purge('0 seconds', '{}')"),
    op("purge", FINISHED, "fn_job_purge('0 seconds')"),
    op("enqueue_key", ANY, "fn_job_enqueue('k{n}', 'i{n}')"),
    op("enqueue_order", ANY, r#"fn_job_enqueue('k{n}', p_options => '{"ordering_key": "o{n}"}')"#),
    op("job_get", ANY, "fn_job_get('{job}')"),
];
