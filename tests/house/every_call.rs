//! A call of every function, made from the catalog: each argument has a value that the function accepts,
//! in a world that has something of everything. Tests change an argument, or the caller.

use agentq_tests::{Session, expect, text};

/// Something of everything, for calls to be about.
pub struct World {
    pub job: String,
    mission: String,
    proposal: String,
    effect: String,
    letter: String,
}

impl World {
    pub fn make(s: &mut Session) -> World {
        let template = r#"'{"steps": [{"name": "a", "kind": "step"}]}'"#;
        let lost = text(&expect(s, "enqueued", "fn_job_enqueue('lost')"), "job_id");
        let letter = expect(s, "dead_letter", &format!("fn_job_move_to_dead_letter('{lost}', 'no use')"));
        expect(s, "enqueued", "fn_job_enqueue('a')");
        expect(s, "enqueued", "fn_job_enqueue('waits')");
        let job = text(&expect(s, "claimed", "fn_job_claim('w', 'a', 3600)"), "job_id");
        expect(s, "saved", &format!("fn_checkpoint_save('{job}', 'w', '{{}}')"));
        expect(s, "run", &format!("fn_step_begin('{job}', 'w', 'a')"));
        let planned = expect(s, "planned", &format!(r#"fn_effect_plan('{job}', 'w', '[{{"effect_type": "mail"}}]')"#));
        expect(s, "set", r#"fn_effect_operation_set('book', '{"produces": ["room"]}')"#);
        expect(s, "set", r#"fn_effect_compensation_set('unbook', '{"of": "book", "produces": ["room.cancel"]}')"#);
        expect(s, "won", "fn_action_begin('a', 'a', p_holder => 'w')");
        expect(s, "sent", "fn_signal_send('a', 'a')");
        expect(s, "created", r#"fn_schedule_set('s', '@daily', '{"job_kind": "s"}')"#);
        expect(s, "created", "fn_handler_register('h', 'SELECT 1')");
        expect(s, "created", "fn_error_class_set('mine', true)");
        expect(s, "created", r#"fn_retry_policy_set('kind', 'a', '{"max_attempts": 3}')"#);
        expect(s, "created", r#"fn_limit_set('tenant:1', '{"max_concurrent": 5, "rate": 5}')"#);
        expect(s, "created", r#"fn_budget_set('tenant:1', 'usd', 'day', '{"amount": 9}')"#);
        expect(s, "ticked", "fn_queue_heartbeat_tick('robot', 'Agent')");
        expect(s, "set", r#"fn_policy_set('auto_approve', '{"enabled": false}')"#);
        expect(s, "emitted", "fn_event_emit('a', 'x')");
        let mission = text(&expect(s, "started", &format!("fn_mission_start({template})")), "mission_id");
        let proposal =
            text(&expect(s, "pending", &format!("fn_proposal_create(NULL, 'api', {template})")), "proposal_id");
        expect(s, "ticked", "fn_engine_tick('seal_events')");
        World {
            job,
            mission,
            proposal,
            effect: text(&planned["effects"][0], "effect_id"),
            letter: text(&letter, "dead_letter_id"),
        }
    }

    /// A value for an argument; None: it is left out.
    fn value(&self, function: &str, name: &str, kind: &str) -> Option<String> {
        let of = |part: &str| function.contains(part);
        let value = match name {
            // What says the same as another, or would make the call wait.
            "p_token" if of("fn_act_as") => "agq_unknown",
            "p_lease_token" | "p_token" | "p_scope_id" | "p_for" | "p_mission_id" | "p_run_id" | "p_version"
            | "p_status" | "p_current_job_id" | "p_remaining" | "p_timeout" => return None,
            "p_from" if of("replay") => return None,
            "p_dead_letter_id" if of("redrive") => return None,
            "p_token_id" => "00000000-0000-0000-0000-000000000000",
            "p_kind" if of("fn_token") => "api",
            "p_job_id" => &self.job,
            "p_mission" => &self.mission,
            "p_proposal_id" => &self.proposal,
            "p_effect_id" => &self.effect,
            "p_dead_letter_id" => &self.letter,
            "p_key" if of("fn_config") => "queue.lease.duration_sec",
            "p_key" if of("fn_policy") => "auto_approve",
            "p_key" if of("fn_limit") || of("fn_budget") => "tenant:1",
            "p_key" if of("fn_retry") => "a",
            "p_value" if of("fn_config") => "300",
            "p_value" => r#"{"enabled": false}"#,
            "p_verdict" if of("fail_or_retry") => "fail",
            "p_verdict" => "done",
            "p_source" => "api",
            "p_period" => "day",
            "p_unit" => "usd",
            "p_budget" => r#"{"amount": 9}"#,
            "p_scope" if of("adjust") => "global",
            "p_scope" => "kind",
            "p_format" => "mermaid",
            "p_mode" => "graceful",
            "p_triage_status" => "closed",
            "p_queue" if of("fn_queue_set") => "new",
            "p_queue" => "default",
            "p_jobs" if of("enqueue") => r#"[{"job_kind": "b"}]"#,
            "p_jobs" => "[]",
            "p_effects" => r#"[{"effect_type": "call"}]"#,
            "p_template" => r#"{"steps": [{"name": "a", "kind": "a"}]}"#,
            "p_job" => r#"{"job_kind": "a"}"#,
            "p_cron" => "@daily",
            "p_timezone" => "UTC",
            "p_missed" => "once",
            "p_executor_kind" => "Agent",
            "p_chore" => "expire",
            "p_limit" if kind == "jsonb" => r#"{"max_concurrent": 5}"#,
            "p_definition" if of("compensation") => r#"{"of": "book", "produces": ["room.cancel"]}"#,
            "p_definition" => r#"{"produces": ["room"]}"#,
            "p_policy" => r#"{"max_attempts": 3}"#,
            "p_changes" => r#"{"priority": 3}"#,
            "p_usage" => r#"{"usd": 1}"#,
            "p_level" => "reader",
            "p_role" => "postgres",
            "p_sql" => "SELECT 1",
            "p_class" => "usual",
            "p_older_than" => "100 days",
            "p_lease_owner" | "p_holder" => "w",
            "p_compensation" => "unbook",
            "p_operation" => "book",
            "p_schedule" => "s",
            "p_error_class" if of("fn_error_class") => "mine",
            "p_until" | "p_retry_at" => "2030-01-31",
            "p_job_kind" if of("fn_handler") => "h",
            "p_job_kind" if of("claim") => "waits",
            _ => match kind {
                "jsonb" => "{}",
                "int4" | "int8" | "numeric" | "float8" => "1",
                "bool" => "true",
                // A wait for the end of something is over at once.
                "interval" if name == "p_wait" => "0",
                "interval" => "1 second",
                "timestamptz" => "2026-01-31",
                kind if kind.starts_with('_') => "{}",
                _ => "a",
            },
        };
        Some(value.to_owned())
    }
}

pub struct Argument {
    pub name: String,
    /// The type, as pg_type names it.
    pub kind: String,
    pub value: Option<String>,
}

impl Argument {
    pub fn is_text(&self) -> bool {
        ["text", "jsonb", "_text"].contains(&self.kind.as_str())
    }
}

pub struct Call {
    schema: String,
    pub function: String,
    pub arguments: Vec<Argument>,
}

impl Call {
    pub fn sql(&self) -> String {
        self.with("", "")
    }

    /// The call with another value for one argument.
    pub fn with(&self, name: &str, value: &str) -> String {
        let given = self.arguments.iter().filter_map(|argument| {
            let value = if argument.name == name { Some(value) } else { argument.value.as_deref() };
            let quoted = value?.replace('\'', "''");
            Some(format!("{} => '{quoted}'::pg_catalog.{}", argument.name, argument.kind))
        });
        format!("{}.{}({})", self.schema, self.function, given.collect::<Vec<_>>().join(", "))
    }
}

/// A call of every function that is not a trigger's.
pub fn every_call(s: &mut Session, world: &World) -> Vec<Call> {
    let rows = s.texts(
        "SELECT p.pronamespace::regnamespace || '|' || p.proname || '|' || coalesce(string_agg(p.proargnames[a.n] || ' ' || t.typname, '|' ORDER BY a.n), '')
         FROM pg_proc p LEFT JOIN LATERAL unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a(t, n) ON true
         LEFT JOIN pg_type t ON t.oid = a.t
         WHERE p.pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND p.prorettype <> 'trigger'::regtype GROUP BY p.oid, p.pronamespace, p.proname ORDER BY p.proname",
    );
    let call = |row: &String| {
        let mut parts = row.split('|').filter(|part| !part.is_empty());
        let mut name = || parts.next().expect("a schema, then a name").to_owned();
        let (schema, function) = (name(), name());
        let argument = |part: &str| {
            let (name, kind) = part.split_once(' ').expect("a name and a type");
            let value = world.value(&function, name, kind);
            Argument { name: name.to_owned(), kind: kind.to_owned(), value }
        };
        let arguments = parts.map(argument).collect();
        Call { schema, function, arguments }
    };
    rows.iter().map(call).collect()
}
