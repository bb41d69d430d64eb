//! A database with something of everything in it, and the real ids, tokens and names in it, so that hostile calls get
//! past the door. Which columns there are is read from the catalog.

use agentq_tests::Session;
use agentq_tests::dice::Dice;
use std::collections::BTreeMap;

/// Who holds jobs here.
pub const OWNER: &str = "worker";

const FILL: [&str; 22] = [
    "SELECT agentq.fn_queue_set('mail')",
    "SELECT agentq.fn_queue_set('night')",
    "SELECT agentq.fn_queue_pause('night')",
    "SELECT agentq.fn_limit_set('tenant:*', '{\"max_concurrent\": 50}')",
    "SELECT agentq.fn_budget_set('tenant:*', 'usd', 'day', '{\"amount\": 1000000}')",
    "SELECT agentq.fn_error_class_set('odd', true)",
    "SELECT agentq.fn_schedule_set('hourly', '@hourly', '{\"job_kind\": \"a\"}')",
    "SELECT agentq.fn_handler_register('sum', 'SELECT 1')",
    "SELECT agentq.fn_policy_set('auto_approve', '{\"enabled\": true, \"allowed_step_kinds\": [\"*\"]}')",
    "SELECT agentq.fn_effect_manifest_set('{\"operations\": {\"a\": {\"produces\": [\"x.do\"]}, \"c\": {}},
        \"compensations\": {\"undo\": {\"of\": \"a\", \"produces\": [\"x.undo\"], \"counter_effects\": true}},
        \"inverse_of\": {\"x.do\": \"x.undo\"}}')",
    "SELECT agentq.fn_job_enqueue(k, p_payload_json => '{\"n\": 1}') FROM unnest(ARRAY['a', 'b', 'k']) k, generate_series(1, 30)",
    "SELECT agentq.fn_job_enqueue('a', 'key-' || n, p_scheduled_at => now() + interval '1 day') FROM generate_series(1, 5) n",
    "SELECT agentq.fn_job_enqueue('o', p_options => '{\"ordering_key\": \"o\"}') FROM generate_series(1, 5)",
    "SELECT agentq.fn_job_enqueue('f', p_options => '{\"fairness_key\": \"tenant:1\", \"cost\": {\"usd\": 1}}') FROM generate_series(1, 5)",
    "SELECT agentq.fn_job_enqueue('r', p_options => '{\"external_effects\": true, \"requires\": [\"gpu\"]}') FROM generate_series(1, 5)",
    "SELECT agentq.fn_mission_start('{\"title\": \"t\", \"steps\": [{\"name\": \"one\", \"kind\": \"a\"},
        {\"name\": \"two\", \"kind\": \"b\", \"depends_on\": [\"one\"], \"when\": \"$.one.go == true\"}]}') FROM generate_series(1, 5)",
    "SELECT agentq.fn_proposal_create('key' || n, 'api', '{\"title\": \"t\", \"steps\": [{\"kind\": \"a\"}]}') FROM generate_series(1, 4) n",
    "SELECT agentq.fn_event_emit('user:request', 'me', '{\"a\": 1}', '{\"dedupe_key\": \"d\", \"tags\": [\"t\"]}') FROM generate_series(1, 9)",
    "SELECT agentq.fn_signal_send('go', 'there', '{\"a\": 1}')",
    "SELECT agentq.fn_action_begin('pay', 'one', NULL, 'worker')",
    "SELECT agentq.fn_queue_heartbeat_tick('worker', 'Agent')",
    "SELECT agentq.fn_job_move_to_dead_letter((c->>'job_id')::uuid, 'hopeless') FROM
        (SELECT agentq.fn_job_enqueue('k') AS c FROM generate_series(1, 5)) jobs",
];

/// Large values, which are kept in the server so that nobody has to send them.
const LARGE: &str = "
    CREATE SCHEMA hostile;
    CREATE TABLE hostile.large (n int PRIMARY KEY, j jsonb, t text);
    INSERT INTO hostile.large VALUES
        (0, to_jsonb(repeat('x', 1000000)), repeat('x', 1000000)),
        (1, jsonb_build_object('a', repeat('x', 1000000)), repeat(' ', 1000000)),
        (2, (SELECT jsonb_agg(i) FROM generate_series(1, 100000) i), repeat('é', 500000)),
        (3, (repeat('[', 6000) || repeat(']', 6000))::jsonb, repeat('[', 100000)),
        (4, (repeat('{\"a\":', 3000) || '1' || repeat('}', 3000))::jsonb, repeat('{\"a\":', 100000)),
        (5, (repeat('[', 200) || repeat(']', 200))::jsonb, repeat('*', 1000) || 'x'),
        (6, (SELECT jsonb_object_agg('k' || i, i) FROM generate_series(1, 100000) i), repeat('a,', 400000)),
        (7, (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 100000) i), repeat('$.a', 300000)),
        (8, '[]', (SELECT string_agg('s' || i, ', ') FROM generate_series(1, 100000) i)),
        (9, jsonb_build_object(repeat('k', 1000000), (SELECT jsonb_agg(i) FROM generate_series(1, 20000) i)), repeat(E'\\n', 1000000));";
pub const LARGE_VALUES: usize = 10;

pub struct World {
    /// Job, owner, token.
    held: Vec<(String, String, String)>,
    /// Values by the name of their column.
    ids: BTreeMap<String, Vec<String>>,
    names: BTreeMap<String, Vec<String>>,
    read: String,
}

const COLUMNS: &str = "
    SELECT string_agg(format('(SELECT %L AS c, %L AS k, %I::text AS v FROM %s WHERE %I IS NOT NULL LIMIT 30)',
        a.attname, format_type(a.atttypid, NULL), a.attname, c.oid::regclass, a.attname), ' UNION ALL ')
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND c.relkind = 'r' AND c.relname NOT LIKE 'access%'
      AND (a.atttypid = 'uuid'::regtype OR a.atttypid = 'text'::regtype AND a.attnum = ANY (
          SELECT unnest(i.indkey::int2[]) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique))";

impl World {
    pub fn new(s: &mut Session) -> World {
        for statement in FILL {
            s.run(statement);
        }
        s.run(LARGE);
        let read = s.text(COLUMNS);
        let mut world = World { held: Vec::new(), ids: BTreeMap::new(), names: BTreeMap::new(), read };
        world.look(s);
        world
    }

    /// Sees to it that there are jobs to be had and some that are held, and learns the ids and names there are.
    pub fn look(&mut self, s: &mut Session) {
        s.run("SELECT agentq.fn_job_enqueue(k) FROM unnest(ARRAY['a', 'b', 'k']) k, generate_series(1, 4)");
        s.run(&format!("SELECT agentq.fn_job_claim_batch('{OWNER}', 6)"));
        // Some have ended, so that all that is about finished jobs has something to do.
        s.run("SELECT agentq.fn_job_ack(job_id, lease_owner) FROM (SELECT job_id, lease_owner FROM agentq_internal.job_lease ORDER BY job_id LIMIT 2) l");
        let rows = s
            .0
            .query("SELECT job_id::text, lease_owner, lease_token::text FROM agentq_internal.job_lease LIMIT 40", &[]);
        let rows = rows.expect("leases can be read");
        self.held = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        let (mut ids, mut names): (BTreeMap<String, Vec<String>>, BTreeMap<String, Vec<String>>) = Default::default();
        for row in s.0.query(&self.read, &[]).expect("the tables can be read") {
            let (column, kind, value): (String, String, String) = (row.get(0), row.get(1), row.get(2));
            if value.len() < 1_000 {
                if kind == "uuid" { &mut ids } else { &mut names }.entry(column).or_default().push(value);
            }
        }
        (self.ids, self.names) = (ids, names);
    }

    /// A held job, its owner and its token.
    pub fn held(&self, dice: &mut Dice) -> Option<(String, String, String)> {
        (!self.held.is_empty()).then(|| dice.one_of(&self.held).clone())
    }

    /// An id that an argument of this name may well have.
    pub fn id(&self, argument: &str, dice: &mut Dice) -> Option<String> {
        Self::value(&self.ids, argument, dice)
    }

    pub fn name(&self, argument: &str, dice: &mut Dice) -> Option<String> {
        Self::value(&self.names, argument, dice)
    }

    fn value(all: &BTreeMap<String, Vec<String>>, argument: &str, dice: &mut Dice) -> Option<String> {
        let column = argument.trim_start_matches("p_");
        let own = all.get(column).or_else(|| all.get(&format!("{column}_id"))).filter(|_| dice.chance(80));
        let any: Vec<&Vec<String>> = all.values().collect();
        let list = own.or_else(|| (!any.is_empty()).then(|| *dice.one_of(&any)))?;
        Some(dice.one_of(list).clone())
    }
}
