//! The only place that talks to the server's SQL interface.
//!
//! A statement is planned once per session and kept. Every function of the extension carries the
//! settings that make the plan the same whatever the statistics say (see `sql/queue/functions.sql`).

use crate::json::Jsonb;
use pgrx::datum::DatumWithOid;
use pgrx::{FromDatum, IntoDatum, pg_sys};
use pgrx::spi::{OwnedPreparedStatement, Spi, SpiClient, SpiTupleTable};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A statement and the types of its parameters.
pub struct Statement {
    pub sql: &'static str,
    pub types: &'static [pg_sys::Oid],
}

/// Declares a statement from the `.sql` file beside the module.
macro_rules! statement {
    ($name:ident, $file:literal, [$($oid:ident),* $(,)?]) => {
        static $name: $crate::db::Statement = $crate::db::Statement {
            sql: include_str!($file),
            types: &[$(pgrx::pg_sys::$oid),*],
        };
    };
}
pub(crate) use statement;

thread_local! {
    static PLANS: RefCell<HashMap<*const u8, Rc<OwnedPreparedStatement>>> = RefCell::default();
}

/// An open connection to the SQL interface, for the length of one function call.
pub struct Db<'a, 'c>(&'a SpiClient<'c>);

/// Runs `work` with a connection. What it returns must not point into rows: see
/// `Jsonb::beyond_connection`.
pub fn connect<R>(work: impl FnOnce(&Db<'_, '_>) -> R) -> R {
    Spi::connect(|client| work(&Db(client)))
}

impl<'c> Db<'_, 'c> {
    /// Runs a statement on a fresh snapshot and returns its rows, positioned at the first. A
    /// statement that changes nothing assigns no transaction id.
    pub fn run(&self, statement: &Statement, args: &[DatumWithOid<'_>]) -> Rows<'c> {
        let plan = self.plan(statement);
        Rows(self.0.select(&*plan, None, args).unwrap_or_else(|error| panic!("{error}")).first())
    }

    fn plan(&self, statement: &Statement) -> Rc<OwnedPreparedStatement> {
        let key = statement.sql.as_ptr();
        if let Some(plan) = PLANS.with_borrow(|plans| plans.get(&key).cloned()) {
            return plan;
        }
        let types: Vec<pgrx::PgOid> = statement.types.iter().map(|oid| (*oid).into()).collect();
        let plan = self.0.prepare_mut(statement.sql, &types).unwrap_or_else(|e| panic!("{e}"));
        let plan = Rc::new(plan.keep());
        PLANS.with_borrow_mut(|plans| plans.insert(key, Rc::clone(&plan)));
        plan
    }
}

/// The rows of a statement.
pub struct Rows<'c>(SpiTupleTable<'c>);

impl Rows<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A column of the present row; columns count from 1.
    pub fn get<T: FromDatum + IntoDatum>(&self, column: usize) -> Option<T> {
        self.0.get(column).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A column that is never NULL.
    pub fn must<T: FromDatum + IntoDatum>(&self, column: usize) -> T {
        self.get(column).unwrap_or_else(|| panic!("column {column} is NULL"))
    }

    /// A jsonb column, copied to where it outlives the connection.
    pub fn json(&self, column: usize) -> Jsonb {
        self.must::<Jsonb>(column).beyond_connection()
    }

    /// Calls `each` with every row in turn.
    pub fn each(mut self, mut each: impl FnMut(&Self)) {
        for _ in 0..self.len() {
            each(&self);
            self.0.next();
        }
    }
}
