//! The layout of a table, and a row to be inserted.

use pgrx::{IntoDatum, pg_sys};
use std::ffi::CStr;

/// A column, by its place in its layout.
#[derive(Clone, Copy)]
pub struct Column(pub usize);

/// The name of a table and the names of its columns.
pub struct Layout {
    pub name: &'static CStr,
    pub columns: &'static [&'static str],
    /// Columns that are NULL in nearly every new row, and stand behind all others: a row may end before them. The version
    /// before may lack them; then they are NULL in every row, and setting them changes nothing.
    pub rarely: &'static [&'static str],
}

/// Declares the layout of a table as a module of its columns. They are looked for in the table
/// itself when that is first opened.
macro_rules! layout {
    ($table:ident: $($column:ident),+ $(; rarely $($rarely:ident),+)?) => {
        #[allow(dead_code, non_camel_case_types, non_upper_case_globals, reason = "named as in SQL")]
        pub mod $table {
            use $crate::table::{Column, Layout};
            enum Place { $($column,)+ $($($rarely),+)? }
            $(pub const $column: Column = Column(Place::$column as usize);)+
            $($(pub const $rarely: Column = Column(Place::$rarely as usize);)+)?
            pub static TABLE: Layout = Layout {
                name: match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($table), "\0").as_bytes()) {
                    Ok(terminated) => terminated,
                    Err(_) => panic!("a name has no NUL"),
                },
                columns: &[$(stringify!($column)),+],
                rarely: &[$($(stringify!($rarely)),+)?],
            };
        }
    };
}
pub(crate) use layout;

/// A value that several rows have in common, made once. It lives as long as the memory it was made in.
#[derive(Clone, Copy)]
pub struct Common(pg_sys::Datum);

impl Common {
    /// None: it is NULL.
    pub fn of(value: impl IntoDatum) -> Option<Common> {
        value.into_datum().map(Common)
    }
}

impl IntoDatum for Common {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        Some(self.0)
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::InvalidOid
    }
}

/// The values of a new row. A column that is not set is NULL.
pub struct Row(Vec<Option<pg_sys::Datum>>);

impl Row {
    pub fn of(layout: &Layout) -> Row {
        Row(vec![None; layout.columns.len() + layout.rarely.len()])
    }

    pub fn set(mut self, column: Column, value: impl IntoDatum) -> Self {
        self.0[column.0] = value.into_datum();
        self
    }

    pub(super) fn values(&self) -> &[Option<pg_sys::Datum>] {
        &self.0
    }
}
