//! The only place that talks to the server's SQL interface.
//!
//! A statement is planned once per session, as a generic plan, and kept. It is planned with every
//! way of reading a table switched off but the one by index, so that no statistics, however stale,
//! can flip its plan. A plan that the server made again behind our back, without these settings, is
//! thrown away after its one use.

#![allow(unsafe_code, reason = "kept plans with planning options are not in the safe interface")]

use crate::json::Jsonb;
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::spi::Spi;
use pgrx::{FromDatum, IntoDatum, PgSqlErrorCode, PgTryBuilder, pg_sys};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

/// A statement and the types of its parameters.
pub struct Statement {
    pub sql: &'static str,
    pub types: &'static [pg_sys::Oid],
    /// Whether its plan is pinned to indexes. A statement that reads much may be planned freely.
    pub pinned: bool,
}

/// Declares a statement from the `.sql` file beside the module.
macro_rules! statement {
    ($visible:vis $name:ident, $file:literal, [$($oid:ident),* $(,)?]) => {
        $visible static $name: $crate::db::Statement = $crate::db::Statement {
            sql: include_str!($file),
            types: &[$(pgrx::pg_sys::$oid),*],
            pinned: true,
        };
    };
    ($visible:vis $name:ident, $file:literal, [$($oid:ident),* $(,)?], freely) => {
        $visible static $name: $crate::db::Statement = $crate::db::Statement {
            sql: include_str!($file),
            types: &[$(pgrx::pg_sys::$oid),*],
            pinned: false,
        };
    };
}
pub(crate) use statement;

/// Planner settings in force while a statement is planned.
const PLANNED_WITH: [(&CStr, &CStr); 5] = [
    (c"enable_seqscan", c"off"),
    (c"enable_bitmapscan", c"off"),
    (c"enable_hashjoin", c"off"),
    (c"enable_mergejoin", c"off"),
    (c"jit", c"off"),
];

/// A kept plan, and which of the server's makings of it was made with our settings.
struct Plan {
    plan: pg_sys::SPIPlanPtr,
    generation: Cell<i32>,
}

static EXTENSION_OWNER: Statement = Statement {
    sql: "SELECT extowner FROM pg_catalog.pg_extension WHERE extname = 'agentq'",
    types: &[],
    pinned: true,
};

thread_local! {
    static PLANS: RefCell<HashMap<*const u8, Rc<Plan>>> = RefCell::default();
}

/// An open connection to the SQL interface, for the length of one function call.
pub struct Db(());

/// Runs `work` with a connection. What it returns must not point into rows.
pub fn connect<R>(work: impl FnOnce(&Db) -> R) -> R {
    plainly(|| Spi::connect(|_| work(&Db(()))))
}

/// Whether this transaction keeps one snapshot, and so may not see what others have committed.
pub fn has_fixed_snapshot() -> bool {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Runs `work`. In a transaction that keeps one snapshot the server refuses to act on rows that have changed since; it
/// is said in our words that this happened, and what to do. Elsewhere there is nothing to catch, and no price to pay.
fn plainly<R>(work: impl FnOnce() -> R) -> R {
    if !has_fixed_snapshot() {
        return work();
    }
    PgTryBuilder::new(AssertUnwindSafe(work))
        .catch_when(PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE, |error| match error {
            CaughtError::PostgresError(report) if crate::error::is_of_server(&report) => {
                crate::error::changed_meanwhile(report.message())
            }
            error => error.rethrow(),
        })
        .execute()
}

/// Runs `work` with a connection, and hands its answer out of it.
pub fn answer(work: impl FnOnce(&Db) -> Jsonb) -> Jsonb {
    connect(|db| work(db).beyond_connection())
}

/// As `answer`, with the rights of the extension's owner, for a function that has those of its caller.
pub fn answer_as_owner(work: impl FnOnce(&Db) -> Jsonb) -> Jsonb {
    connect(|db| {
        let owner: pg_sys::Oid = db.run(&EXTENSION_OWNER, &[]).must(1);
        // SAFETY: the rights are put back below; after an error the abort of the transaction, or
        // of the subtransaction in which it is caught, puts them back.
        unsafe {
            let (mut user, mut context) = (pg_sys::InvalidOid, 0);
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            pg_sys::SetUserIdAndSecContext(owner, context | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32);
            let answer = work(db).beyond_connection();
            pg_sys::SetUserIdAndSecContext(user, context);
            answer
        }
    })
}

/// Runs `work` with a search path of the server's own schema alone. The same as SET search_path in a
/// function's declaration, for a tenth of its price. An error undoes it with the (sub)transaction.
pub fn with_own_names<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the server copies the path, and keeps the copies on a stack.
    unsafe {
        let mut path = pg_sys::OverrideSearchPath { addCatalog: true, ..Default::default() };
        pg_sys::PushOverrideSearchPath(&mut path);
        let result = plainly(work);
        pg_sys::PopOverrideSearchPath();
        result
    }
}

/// Runs `work` with a setting of the server's, which an error undoes with the (sub)transaction.
pub fn with_setting<R>(name: &CStr, value: &CStr, work: impl FnOnce() -> R) -> R {
    // SAFETY: plain calls of the server's, which copies the value.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        set_locally(name, value);
        let result = work();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}

/// Sets a setting until the present level of settings ends.
unsafe fn set_locally(name: &CStr, value: &CStr) {
    // SAFETY: the server copies the value.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}

/// An error that was caught.
pub struct Caught {
    pub code: PgSqlErrorCode,
    pub message: String,
    pub hint: String,
}

/// Runs `work`; an error is returned.
pub fn caught<R>(work: impl FnOnce() -> R) -> Result<R, Caught> {
    let read = |error: CaughtError| match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => {
            let hint = report.hint().unwrap_or_default().to_owned();
            Err(Caught { code: report.sql_error_code(), message: report.message().to_owned(), hint })
        }
    };
    PgTryBuilder::new(AssertUnwindSafe(|| Ok(work()))).catch_others(read).catch_rust_panic(read).execute()
}

/// Runs `work` in a subtransaction; an error undoes what it did, and is returned. A cancel goes on.
pub fn attempt<R>(work: impl FnOnce() -> R) -> Result<R, Caught> {
    // SAFETY: what PL/pgSQL does around a block with an exception handler.
    let result = unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let result = caught(work);
        match &result {
            Ok(_) => pg_sys::ReleaseCurrentSubTransaction(),
            Err(_) => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
    };
    if let Err(error) = &result
        && error.code == PgSqlErrorCode::ERRCODE_QUERY_CANCELED
    {
        crate::error::raise(error.code, error.message.clone(), "What it had done is undone.")
    }
    result
}

/// Runs `work` in a subtransaction, and undoes it if `work` says that it is not worth keeping: then no
/// lock is kept either. What it returns must not point into rows.
pub fn worth_keeping<R>(work: impl FnOnce() -> (R, bool)) -> R {
    // SAFETY: as above; an error leaves through the abort of the transaction around it.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let (result, keep) = work();
        if keep {
            pg_sys::ReleaseCurrentSubTransaction();
        } else {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
    }
}

/// Whether the caller has opened a transaction, and so decides when it ends.
/// Whether this server only replays what another one writes.
pub fn is_on_standby() -> bool {
    // SAFETY: reads a state of the server.
    unsafe { pg_sys::RecoveryInProgress() }
}

pub fn is_in_transaction_block() -> bool {
    // SAFETY: reads the state of the transaction.
    unsafe { pg_sys::IsTransactionBlock() }
}

thread_local!(static ACTING: Cell<Option<pg_sys::Oid>> = const { Cell::new(None) });

/// Says for whom a session of the engine's acts from now on: the role of a handler, or again nobody.
pub fn act_as(role: Option<pg_sys::Oid>) {
    ACTING.set(role);
}

/// The role that opened the session: who acts, whatever the function's own rights are. While a handler
/// runs, its role, or all that it does would be the superuser's whose session the engine uses.
pub fn session_user() -> String {
    // SAFETY: the name of a role that exists, in memory of the caller's context.
    unsafe {
        let role = ACTING.get().unwrap_or_else(|| pg_sys::GetSessionUserId());
        let name = pg_sys::GetUserNameFromId(role, false);
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

impl Db {
    /// Runs a statement on a fresh snapshot and returns its rows, positioned at the first. A
    /// statement that changes nothing assigns no transaction id.
    pub fn run(&self, statement: &Statement, args: &[DatumWithOid<'_>]) -> Rows {
        assert_eq!(args.len(), statement.types.len(), "arguments of {}", statement.sql);
        let plan = self.plan(statement);
        let rows = if plan.is_current() || !statement.pinned {
            execute(plan.plan, args)
        } else {
            let rows = with_settings(|| execute(plan.plan, args));
            plan.generation.set(plan.made());
            rows
        };
        if statement.pinned && plan.made() != plan.generation.get() {
            PLANS.with_borrow_mut(|plans| plans.remove(&statement.sql.as_ptr()));
        }
        rows
    }

    fn plan(&self, statement: &Statement) -> Rc<Plan> {
        let key = statement.sql.as_ptr();
        if let Some(plan) = PLANS.with_borrow(|plans| plans.get(&key).cloned()) {
            return plan;
        }
        let sql = CString::new(statement.sql).expect("a statement has no NUL");
        let mut types = statement.types.to_vec();
        // SAFETY: connected; the text and the types outlive the call, which copies them.
        let plan = unsafe {
            let options = pg_sys::CURSOR_OPT_GENERIC_PLAN as i32;
            let plan = pg_sys::SPI_prepare_cursor(sql.as_ptr(), types.len() as i32, types.as_mut_ptr(), options);
            assert!(!plan.is_null(), "cannot prepare {}", statement.sql);
            pg_sys::SPI_keepplan(plan);
            plan
        };
        let plan = Rc::new(Plan { plan, generation: Cell::new(-1) });
        PLANS.with_borrow_mut(|plans| plans.insert(key, Rc::clone(&plan)));
        plan
    }
}

impl Plan {
    /// The server's own record of the statement: a kept plan of ours has exactly one.
    fn source(&self) -> &pg_sys::CachedPlanSource {
        // SAFETY: the plan is kept until it is dropped, and its list of sources with it.
        unsafe {
            let sources = pg_sys::SPI_plan_get_plan_sources(self.plan);
            &*(*(*sources).elements).ptr_value.cast::<pg_sys::CachedPlanSource>()
        }
    }

    /// How often the server has made this plan.
    fn made(&self) -> i32 {
        self.source().generation
    }

    /// Whether the plan made with our settings is still good.
    fn is_current(&self) -> bool {
        let source = self.source();
        // SAFETY: a generic plan that is there is owned by its source.
        let plan_is_valid = unsafe { source.gplan.as_ref() }.is_some_and(|plan| plan.is_valid);
        source.is_valid && plan_is_valid && source.generation == self.generation.get()
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: no one else holds it.
        unsafe { pg_sys::SPI_freeplan(self.plan) };
    }
}

/// Runs `work` with the planner settings, which an error undoes with the transaction.
fn with_settings<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: plain calls of the server's, on names and values that live forever.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (name, value) in PLANNED_WITH {
            set_locally(name, value);
        }
        let result = work();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}

fn execute(plan: pg_sys::SPIPlanPtr, args: &[DatumWithOid<'_>]) -> Rows {
    const NULL: core::ffi::c_char = b'n' as core::ffi::c_char;
    const VALUE: core::ffi::c_char = b' ' as core::ffi::c_char;
    let (mut values, mut nulls): (Vec<pg_sys::Datum>, Vec<core::ffi::c_char>) = args
        .iter()
        .map(|arg| arg.datum().map_or((pg_sys::Datum::from(0), NULL), |datum| (datum.sans_lifetime(), VALUE)))
        .unzip();
    // SAFETY: connected; values and nulls are as many as the plan's parameters, which `run` checked.
    unsafe {
        pg_sys::SPI_tuptable = std::ptr::null_mut();
        let code = pg_sys::SPI_execute_plan(plan, values.as_mut_ptr(), nulls.as_mut_ptr(), false, 0);
        assert!(code >= 0, "SPI_execute_plan answered {code}");
        let table = pg_sys::SPI_tuptable;
        let len = if table.is_null() { 0 } else { (*table).numvals as usize };
        Rows { table, len, current: 0 }
    }
}

/// The rows of a statement, read one at a time.
pub struct Rows {
    table: *mut pg_sys::SPITupleTable,
    len: usize,
    current: usize,
}

impl Rows {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// A column of the present row; columns count from 1.
    pub fn get<T: FromDatum + IntoDatum>(&self, column: usize) -> Option<T> {
        assert!(self.current < self.len, "there is no such row");
        // SAFETY: the table lives until the connection ends, the row is in it, and the column's
        // type is checked to be the one asked for.
        unsafe {
            let descriptor = (*self.table).tupdesc;
            let oid = pg_sys::SPI_gettypeid(descriptor, column as i32);
            assert!(T::is_compatible_with(oid), "column {column} is of another type");
            let mut is_null = false;
            let tuple = *(*self.table).vals.add(self.current);
            let datum = pg_sys::SPI_getbinval(tuple, descriptor, column as i32, &mut is_null);
            T::from_polymorphic_datum(datum, is_null, oid)
        }
    }

    /// A column that is never NULL.
    pub fn must<T: FromDatum + IntoDatum>(&self, column: usize) -> T {
        self.get(column).unwrap_or_else(|| panic!("column {column} is NULL"))
    }

    /// Calls `each` with every row in turn.
    pub fn each(mut self, mut each: impl FnMut(&Self)) {
        while self.current < self.len {
            each(&self);
            self.current += 1;
        }
    }
}
