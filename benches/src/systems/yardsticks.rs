//! The systems that this program brings along: agentq, two queues to compare it with, and the limit.
//! Their SQL is in `yardsticks/` (schemas) and `scripts/` (what pgbench sends).

use super::{AGENTQ, LIMIT, NAIVE, Role, Schema, Scripts, System, TEXTBOOK};

macro_rules! script {
    ($system:literal, $name:literal) => {
        Some(include_str!(concat!("../../scripts/", $system, "/", $name, ".sql")).to_owned())
    };
}

macro_rules! queue_scripts {
    ($system:literal) => {
        Scripts {
            enqueue: script!($system, "enqueue"),
            batch_enqueue: script!($system, "batch_enqueue"),
            claim_ack: script!($system, "claim_ack"),
            batch_claim_ack: script!($system, "batch_claim_ack"),
            ..Scripts::default()
        }
    };
}

/// All of them, agentq first.
pub fn own() -> Vec<System> {
    vec![agentq(), naive(), textbook(), limit()]
}

fn agentq() -> System {
    System {
        name: AGENTQ.to_owned(),
        version: String::new(),
        role: Role::Agentq,
        scripts: Scripts {
            ack_and_claim: script!("agentq", "ack_and_claim"),
            batch_ack_and_claim: script!("agentq", "batch_ack_and_claim"),
            ..queue_scripts!("agentq")
        },
        schema: Schema::Sql("CREATE EXTENSION agentq"),
        backlog_per_second: 300_000,
        count: "SELECT count(*), count(*) FILTER (WHERE state = 'succeeded') FROM agentq.job_queue".to_owned(),
    }
}

fn naive() -> System {
    System {
        name: NAIVE.to_owned(),
        version: String::new(),
        role: Role::Yardstick,
        scripts: queue_scripts!("naive"),
        schema: Schema::Sql(include_str!("../../yardsticks/naive/schema.sql")),
        backlog_per_second: 30_000,
        count: "SELECT count(*), count(*) FILTER (WHERE state = 'succeeded') FROM job_queue".to_owned(),
    }
}

fn textbook() -> System {
    System {
        name: TEXTBOOK.to_owned(),
        version: String::new(),
        role: Role::Yardstick,
        scripts: queue_scripts!("textbook"),
        schema: Schema::Sql(include_str!("../../yardsticks/textbook/schema.sql")),
        backlog_per_second: 200_000,
        count: "SELECT count(*), count(*) FILTER (WHERE state = 'done') FROM jobs".to_owned(),
    }
}

fn limit() -> System {
    System {
        name: LIMIT.to_owned(),
        version: String::new(),
        role: Role::Limit,
        scripts: Scripts {
            enqueue: script!("limit", "enqueue"),
            batch_enqueue: script!("limit", "batch_enqueue"),
            claim_ack: script!("limit", "claim_ack"),
            ..Scripts::default()
        },
        schema: Schema::Sql(include_str!("../../yardsticks/limit/schema.sql")),
        backlog_per_second: 40_000,
        count: "SELECT count(*), count(*) FILTER (WHERE state = 'done') FROM job".to_owned(),
    }
}
