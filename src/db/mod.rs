//! SQL: the way to the server's SQL interface that all rooms use. SQL that users wrote (in SQL workers, in the hook of
//! a policy) runs in modules of those rooms, with the rights of its user.

#![allow(unsafe_code, reason = "kept plans with planning options are not in the safe interface")]

mod in_line;
mod parts;
mod plan;
mod rights;
mod rows;
mod settings;
mod statement;
mod strangers;
mod time_limit;
mod walk;

pub use in_line::lock_all;
pub use parts::{Caught, attempt, caught, leaving_what_changed, nothing_if_changed, worth_keeping};
pub use rights::{act_as, acting_for, answer_as_owner, as_owner};
pub use rows::Rows;
pub use settings::{set_for_transaction, set_locally, with_own_names, with_setting};
pub use statement::Statement;
pub(crate) use statement::statements;
pub use strangers::{Patience, PutOff};
pub use time_limit::attempt_within;
pub use walk::Budget;

use crate::json::Jsonb;
use crate::memory;
use pgrx::datum::DatumWithOid;
use pgrx::spi::Spi;

statements!("notify.sql": NOTIFY);

/// An open connection to the SQL interface, for the length of one function call.
pub struct Db(());

/// Runs `work` with a connection. What it returns must not point into rows.
pub fn connect<R>(work: impl FnOnce(&Db) -> R) -> R {
    parts::with_our_40001(|| Spi::connect(|_| work(&Db(()))))
}

/// Runs `work` with a connection, and hands its answer out of it.
pub fn answer(work: impl FnOnce(&Db) -> Jsonb) -> Jsonb {
    connect(|db| work(db).beyond_connection())
}

impl Db {
    /// Runs a statement on a fresh snapshot and returns its rows, positioned at the first. A
    /// statement that changes nothing assigns no transaction id.
    pub fn run(&self, statement: &Statement, args: &[DatumWithOid<'_>]) -> Rows {
        memory::must_not_be_short();
        plan::run(statement, args)
    }

    /// Runs a statement that only reads, on what is committed at this moment, also in a transaction that keeps one snapshot.
    pub fn read_latest(&self, statement: &Statement, args: &[DatumWithOid<'_>]) -> Rows {
        memory::must_not_be_short();
        plan::read_latest(statement, args)
    }

    /// Tells the listeners of a channel, when this transaction commits.
    pub fn notify(&self, channel: &str, message: &str) {
        self.run(&NOTIFY, &[channel.into(), message.into()]);
    }
}
