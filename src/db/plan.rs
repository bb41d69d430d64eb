//! Kept plans. A statement is planned once per session, as a generic plan, with every way of reading a table switched off
//! but the one by index, so that no statistics, however stale, can flip its plan. A plan that the server made again behind
//! our back, without these settings, is thrown away after its one use.

use super::rows::{ColumnNumber, Rows};
use super::settings::with_settings;
use super::statement::Statement;
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::rc::Rc;

/// Planner settings in force while a statement is planned.
const PLANNED_WITH: [(&CStr, &CStr); 5] = [
    (c"enable_seqscan", c"off"),
    (c"enable_bitmapscan", c"off"),
    (c"enable_hashjoin", c"off"),
    (c"enable_mergejoin", c"off"),
    (c"jit", c"off"),
];

/// A kept plan, which of the server's makings of it was made with our settings, and where its columns are.
pub struct Plan {
    pub name: &'static str,
    plan: pg_sys::SPIPlanPtr,
    generation: Cell<i32>,
    pub columns: RefCell<Vec<ColumnNumber>>,
}

thread_local! {
    static PLANS: RefCell<HashMap<*const u8, Rc<Plan>>> = RefCell::default();
}

/// Runs a statement on a fresh snapshot. Connected only.
pub fn run(statement: &Statement, args: &[DatumWithOid<'_>]) -> Rows {
    planned(statement, args, execute)
}

/// Runs a statement that only reads on the latest snapshot, whatever the transaction keeps. Connected only.
pub fn read_latest(statement: &Statement, args: &[DatumWithOid<'_>]) -> Rows {
    planned(statement, args, execute_on_latest)
}

/// Opens a cursor for a statement on a fresh snapshot. Connected only.
pub fn open(statement: &Statement, args: &[DatumWithOid<'_>]) -> (pg_sys::Portal, Rc<Plan>) {
    planned(statement, args, |plan, args| (open_cursor(plan, args), Rc::clone(plan)))
}

/// Begins a statement, with a plan that was made with our settings.
fn planned<R>(
    statement: &Statement,
    args: &[DatumWithOid<'_>],
    begin: impl FnOnce(&Rc<Plan>, &[DatumWithOid<'_>]) -> R,
) -> R {
    assert_eq!(args.len(), statement.types().len(), "arguments of {}", statement.name);
    let plan = Plan::of(statement);
    let rows = if plan.is_current() || !statement.pinned {
        begin(&plan, args)
    } else {
        let rows = with_settings(&PLANNED_WITH, || begin(&plan, args));
        plan.generation.set(plan.made());
        rows
    };
    if statement.pinned && plan.made() != plan.generation.get() {
        // Which form the schema wants may have to be looked up, with a plan.
        let key = statement.sql().as_ptr();
        PLANS.with_borrow_mut(|plans| plans.remove(&key));
    }
    rows
}

impl Plan {
    fn of(statement: &Statement) -> Rc<Plan> {
        let sql = statement.sql();
        let key = sql.as_ptr();
        if let Some(plan) = PLANS.with_borrow(|plans| plans.get(&key).cloned()) {
            return plan;
        }
        let sql = CString::new(sql).expect("a statement has no NUL");
        let mut types = statement.types().to_vec();
        // SAFETY: connected; the text and the types outlive the call, which copies them.
        let plan = unsafe {
            let options = pg_sys::CURSOR_OPT_GENERIC_PLAN as i32;
            let plan = pg_sys::SPI_prepare_cursor(sql.as_ptr(), types.len() as i32, types.as_mut_ptr(), options);
            assert!(!plan.is_null(), "cannot prepare {}", statement.name);
            pg_sys::SPI_keepplan(plan);
            plan
        };
        let (name, columns) = (statement.name, RefCell::default());
        let plan = Rc::new(Plan { name, plan, generation: Cell::new(-1), columns });
        PLANS.with_borrow_mut(|plans| plans.insert(key, Rc::clone(&plan)));
        plan
    }

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

/// Values, and which of them are NULL, as the server takes them.
fn values(args: &[DatumWithOid<'_>]) -> (Vec<pg_sys::Datum>, Vec<core::ffi::c_char>) {
    const NULL: core::ffi::c_char = b'n' as core::ffi::c_char;
    const VALUE: core::ffi::c_char = b' ' as core::ffi::c_char;
    args.iter()
        .map(|arg| arg.datum().map_or((pg_sys::Datum::from(0), NULL), |datum| (datum.sans_lifetime(), VALUE)))
        .unzip()
}

fn open_cursor(plan: &Rc<Plan>, args: &[DatumWithOid<'_>]) -> pg_sys::Portal {
    let (mut values, nulls) = values(args);
    // SAFETY: connected; values and nulls are as many as the plan's parameters, and the server copies them.
    let portal =
        unsafe { pg_sys::SPI_cursor_open(std::ptr::null(), plan.plan, values.as_mut_ptr(), nulls.as_ptr(), false) };
    assert!(!portal.is_null(), "cannot open a cursor for {}", plan.name);
    portal
}

fn execute(plan: &Rc<Plan>, args: &[DatumWithOid<'_>]) -> Rows {
    let (mut values, mut nulls) = values(args);
    // SAFETY: connected; values and nulls are as many as the plan's parameters, which `run` checked.
    unsafe {
        pg_sys::SPI_tuptable = std::ptr::null_mut();
        let code = pg_sys::SPI_execute_plan(plan.plan, values.as_mut_ptr(), nulls.as_mut_ptr(), false, 0);
        assert!(code >= 0, "SPI_execute_plan answered {code} to {}", plan.name);
        Rows::new(pg_sys::SPI_tuptable, Rc::clone(plan))
    }
}

fn execute_on_latest(plan: &Rc<Plan>, args: &[DatumWithOid<'_>]) -> Rows {
    let (mut values, nulls) = values(args);
    // SAFETY: as in `execute`; the server registers the snapshot for as long as it runs the plan.
    unsafe {
        pg_sys::SPI_tuptable = std::ptr::null_mut();
        let code = pg_sys::SPI_execute_snapshot(
            plan.plan,
            values.as_mut_ptr(),
            nulls.as_ptr(),
            pg_sys::GetLatestSnapshot(),
            std::ptr::null_mut(),
            true,
            false,
            0,
        );
        assert!(code >= 0, "SPI_execute_snapshot answered {code} to {}", plan.name);
        Rows::new(pg_sys::SPI_tuptable, Rc::clone(plan))
    }
}
