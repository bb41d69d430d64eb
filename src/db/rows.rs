//! What a statement answers: rows, read one at a time, by the names of their columns.

use super::plan::Plan;
use pgrx::{FromDatum, IntoDatum, pg_sys};
use std::ffi::CString;
use std::ops::ControlFlow;
use std::rc::Rc;

/// The rows of a statement, standing on the first.
pub struct Rows {
    table: *mut pg_sys::SPITupleTable,
    plan: Rc<Plan>,
    len: usize,
    current: usize,
}

/// The number of a column, as the plan remembers it. The name is known again by its address in the library.
#[derive(Clone, Copy)]
pub struct ColumnNumber {
    name: (*const u8, usize),
    number: i32,
}

impl Rows {
    /// # Safety
    /// The table is what the plan has just answered, and lives until the connection ends.
    pub unsafe fn new(table: *mut pg_sys::SPITupleTable, plan: Rc<Plan>) -> Rows {
        // SAFETY: the caller's.
        let len = unsafe { table.as_ref() }.map_or(0, |table| table.numvals as usize);
        Rows { table, plan, len, current: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// A column of the present row.
    pub fn get<T: FromDatum + IntoDatum>(&self, column: &'static str) -> Option<T> {
        self.value(self.number(column), column)
    }

    /// A column that is never NULL.
    pub fn must<T: FromDatum + IntoDatum>(&self, column: &'static str) -> T {
        self.get(column).unwrap_or_else(|| panic!("{column} of {} is NULL", self.plan.name))
    }

    /// A column that holds one of a few words, as the type that stands for them.
    pub fn word<T>(&self, column: &'static str, parse: fn(&str) -> Option<T>) -> T {
        let word: String = self.must(column);
        parse(&word).unwrap_or_else(|| panic!("{column} of {} is {word}, which is not known", self.plan.name))
    }

    /// The one column of a statement that has no other.
    pub fn only<T: FromDatum + IntoDatum>(&self) -> T {
        self.maybe_only().unwrap_or_else(|| panic!("what {} answers is NULL", self.plan.name))
    }

    /// The one column of a statement that has no other, or None if it is NULL.
    pub fn maybe_only<T: FromDatum + IntoDatum>(&self) -> Option<T> {
        assert!(!self.table.is_null(), "{} answers nothing", self.plan.name);
        // SAFETY: as in `value`.
        let columns = unsafe { (*(*self.table).tupdesc).natts };
        assert_eq!(columns, 1, "{} answers with several columns", self.plan.name);
        self.value(1, "its column")
    }

    /// The number of a column. It is looked up once for each plan.
    fn number(&self, column: &'static str) -> i32 {
        let name = (column.as_ptr(), column.len());
        let mut known = self.plan.columns.borrow_mut();
        if let Some(found) = known.iter().find(|known| known.name == name) {
            return found.number;
        }
        assert!(!self.table.is_null(), "{} answers nothing", self.plan.name);
        let text = CString::new(column).expect("a name has no NUL");
        // SAFETY: as in `value`; the name outlives the call.
        let number = unsafe { pg_sys::SPI_fnumber((*self.table).tupdesc, text.as_ptr()) };
        assert!(number > 0, "{} has no column {column}", self.plan.name);
        known.push(ColumnNumber { name, number });
        number
    }

    fn value<T: FromDatum + IntoDatum>(&self, number: i32, column: &str) -> Option<T> {
        assert!(self.current < self.len, "{} has no such row", self.plan.name);
        // SAFETY: the table lives until the connection ends, the row is in it, and the column's
        // type is checked to be the one asked for.
        unsafe {
            let descriptor = (*self.table).tupdesc;
            let oid = pg_sys::SPI_gettypeid(descriptor, number);
            assert!(T::is_compatible_with(oid), "{column} of {} is of another type", self.plan.name);
            let mut is_null = false;
            let tuple = *(*self.table).vals.add(self.current);
            let datum = pg_sys::SPI_getbinval(tuple, descriptor, number, &mut is_null);
            T::from_polymorphic_datum(datum, is_null, oid)
        }
    }

    /// Calls `each` with every row in turn, until it has had enough.
    pub fn try_each(mut self, mut each: impl FnMut(&Self) -> ControlFlow<()>) -> ControlFlow<()> {
        while self.current < self.len {
            each(&self)?;
            self.current += 1;
        }
        ControlFlow::Continue(())
    }

    /// Calls `each` with every row in turn.
    pub fn each(mut self, mut each: impl FnMut(&Self)) {
        while self.current < self.len {
            each(&self);
            self.current += 1;
        }
    }
}
