//! A database of its own for every test, and sessions that ask it.

use crate::cluster::{Cluster, Options};
use postgres::types::ToSql;
use postgres::{Client, NoTls};
use serde_json::Value;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The cluster that most tests share, preloaded, with a template database that has the extension.
pub fn shared_cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Cluster::start("shared", &Options::default());
        cluster.make_template();
        cluster
    })
}

/// A new database with the extension, in the shared cluster.
pub fn database() -> Database<'static> {
    shared_cluster().database()
}

impl Cluster {
    pub fn make_template(&self) {
        let mut admin = self.session("postgres");
        admin.run("CREATE DATABASE agentq_template");
        self.session("agentq_template").run("CREATE EXTENSION agentq");
    }

    /// A copy of the template.
    pub fn database(&self) -> Database<'_> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        self.session("postgres").run(&format!("CREATE DATABASE {name} TEMPLATE agentq_template"));
        Database { cluster: self, name }
    }

    pub fn session(&self, database: &str) -> Session {
        Session(self.try_connect(database).expect("the server accepts"))
    }
}

pub struct Database<'c> {
    pub cluster: &'c Cluster,
    pub name: String,
}

impl Database<'_> {
    /// A session of the superuser.
    pub fn session(&self) -> Session {
        self.cluster.session(&self.name)
    }

    /// A session of another role, which is made if need be.
    pub fn session_of(&self, role: &str) -> Session {
        let quoted = role.replace('"', "\"\"");
        self.session().run(&format!(
            "DO $$ BEGIN CREATE ROLE \"{quoted}\" LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        ));
        let config = format!("host=127.0.0.1 port={} dbname={} user='{role}'", self.cluster.port, self.name);
        Session(Client::connect(&config, NoTls).expect("the server accepts"))
    }

    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// Fails if any job is in no place or in two.
    pub fn assert_sound(&self) {
        let problems = self.session().texts("SELECT problem || ' ' || job_id FROM agentq.fn_queue_verify()");
        assert!(problems.is_empty(), "the queue is not sound: {problems:?}");
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        if let Ok(mut admin) = Client::connect(&self.cluster.url("postgres"), NoTls) {
            admin.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).ok();
        }
    }
}

/// What went wrong, as the user sees it.
#[derive(Debug)]
pub struct Failure {
    pub code: String,
    pub message: String,
    pub detail: String,
    pub hint: String,
}

/// One connection.
pub struct Session(pub Client);

impl Session {
    /// Runs statements that return nothing of interest.
    #[track_caller]
    pub fn run(&mut self, sql: &str) {
        if let Err(error) = self.0.batch_execute(sql) {
            panic!("{sql}\n{error:?}");
        }
    }

    /// The first column of the first row, as JSON.
    #[track_caller]
    pub fn json(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Value {
        match self.0.query_one(sql, params) {
            Ok(row) => row.get(0),
            Err(error) => panic!("{sql}\n{error:?}"),
        }
    }

    /// The answer of `SELECT agentq.<call>`.
    #[track_caller]
    pub fn call(&mut self, call: &str) -> Value {
        self.json(&format!("SELECT agentq.{call}"), &[])
    }

    /// The table, view or sequence of agentq's that has this name, with its schema: that for callers, or the internal one.
    #[track_caller]
    pub fn qualified(&mut self, relation: &str) -> String {
        self.text(&format!(
            "SELECT coalesce(to_regclass('agentq.{relation}'), to_regclass('agentq_internal.{relation}'))::text"
        ))
    }

    /// The first column of every row, as text.
    #[track_caller]
    pub fn texts(&mut self, sql: &str) -> Vec<String> {
        match self.0.simple_query(sql) {
            Ok(messages) => messages
                .iter()
                .filter_map(|message| match message {
                    postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
                    _ => None,
                })
                .collect(),
            Err(error) => panic!("{sql}\n{error:?}"),
        }
    }

    /// The first column of the only row, as text.
    #[track_caller]
    pub fn text(&mut self, sql: &str) -> String {
        let rows = self.texts(sql);
        assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
        rows.into_iter().next().unwrap_or_default()
    }

    #[track_caller]
    pub fn count(&mut self, from: &str) -> i64 {
        self.text(&format!("SELECT count(*) FROM {from}")).parse().expect("a number")
    }

    /// The error that the statement must raise.
    #[track_caller]
    pub fn fails(&mut self, sql: &str) -> Failure {
        match self.0.simple_query(sql) {
            Ok(_) => panic!("this must fail: {sql}"),
            Err(error) => {
                let error = error.as_db_error().unwrap_or_else(|| panic!("not a server error: {error:?}"));
                Failure {
                    code: error.code().code().to_owned(),
                    message: error.message().to_owned(),
                    detail: error.detail().unwrap_or_default().to_owned(),
                    hint: error.hint().unwrap_or_default().to_owned(),
                }
            }
        }
    }

    /// The state of a job.
    #[track_caller]
    pub fn state(&mut self, job_id: &str) -> String {
        self.text(&format!("SELECT state FROM agentq.job_queue WHERE job_id = '{job_id}'"))
    }

    /// Enqueues a job of that kind and returns its id.
    #[track_caller]
    pub fn enqueue(&mut self, kind: &str) -> String {
        let answer = self.json("SELECT agentq.fn_job_enqueue($1)", &[&kind]);
        answer["job_id"].as_str().expect("a job id").to_owned()
    }

    /// Claims any job for that owner and returns the answer.
    #[track_caller]
    pub fn claim(&mut self, owner: &str) -> Value {
        self.json("SELECT agentq.fn_job_claim($1)", &[&owner])
    }

    /// Moves this session's clock to half past noon of tomorrow, where no hour and no day ends while a test runs. Returns by
    /// how many seconds.
    #[track_caller]
    pub fn to_noon(&mut self) -> i64 {
        let noon = "date_trunc('day', now() AT TIME ZONE 'UTC') + interval '36 hours 30 minutes'";
        let until = format!("SELECT extract(epoch FROM {noon} - now() AT TIME ZONE 'UTC')::bigint");
        let seconds = self.text(&until).parse().expect("a number");
        self.shift_clock(seconds);
        seconds
    }

    /// Moves this session's clock.
    #[track_caller]
    pub fn shift_clock(&mut self, seconds: i64) {
        self.run(&format!("SET agentq.clock_offset = {seconds}"));
    }
}
