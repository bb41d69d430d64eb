//! Finding rows by an index, in its order.

use super::{Moment, RowReader, Table, names, raw};
use crate::pg::tables;
use pgrx::prelude::*;
use pgrx::{IntoDatum, Uuid};
use std::ffi::CStr;
use std::ptr;

/// A value to look for.
#[derive(Clone, Copy)]
pub enum Key<'a> {
    Int(i32),
    Text(&'a str),
    Time(i64),
    Id(Uuid),
}

/// Where to begin, in the index columns that follow those looked for.
#[derive(Clone, Copy)]
pub enum Bound<'a> {
    /// At the first row that is not before these values.
    From(&'a [Key<'a>]),
    /// At the first row that is not before these values, and up to this value of the first of these columns.
    Between(&'a [Key<'a>], Key<'a>),
    /// At the first row after this value.
    After(i32),
}

const C_COLLATION: pg_sys::Oid = pg_sys::Oid::from_u32(950);

impl Key<'_> {
    fn datum(self) -> pg_sys::Datum {
        match self {
            Key::Int(value) => value.into(),
            Key::Time(value) => value.into(),
            Key::Text(value) => value.into_datum().expect("a text"),
            Key::Id(value) => value.into_datum().expect("an id"),
        }
    }

    fn equals(self) -> u32 {
        match self {
            Key::Int(_) => pg_sys::F_INT4EQ,
            Key::Text(_) => pg_sys::F_TEXTEQ,
            Key::Time(_) => pg_sys::F_TIMESTAMPTZ_EQ,
            Key::Id(_) => pg_sys::F_UUID_EQ,
        }
    }

    fn compares(self) -> u32 {
        match self {
            Key::Int(_) => pg_sys::F_BTINT4CMP,
            Key::Text(_) => pg_sys::F_BTTEXTCMP,
            Key::Time(_) => pg_sys::F_TIMESTAMPTZ_CMP,
            Key::Id(_) => pg_sys::F_UUID_CMP,
        }
    }

    fn is_at_most(self) -> u32 {
        match self {
            Key::Int(_) => pg_sys::F_INT4LE,
            Key::Text(_) => pg_sys::F_TEXT_LE,
            Key::Time(_) => pg_sys::F_TIMESTAMPTZ_LE,
            Key::Id(_) => pg_sys::F_UUID_LE,
        }
    }

    fn is_at_least(self) -> u32 {
        match self {
            Key::Int(_) => pg_sys::F_INT4GE,
            Key::Text(_) => pg_sys::F_TEXT_GE,
            Key::Time(_) => pg_sys::F_TIMESTAMPTZ_GE,
            Key::Id(_) => pg_sys::F_UUID_GE,
        }
    }
}

/// What a key of a scan is to say of a column.
fn scan_key(flags: u32, column: usize, strategy: u32, function: u32, value: pg_sys::Datum) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData {
        sk_flags: flags as i32,
        sk_attno: column as i16,
        sk_strategy: strategy as u16,
        sk_argument: value,
        ..Default::default()
    };
    key.sk_func.fn_oid = pg_sys::Oid::from_u32(function);
    key
}

/// Looks up the functions of keys. To be called under a guard.
///
/// # Safety
/// The functions are the server's own, and the values of their types.
unsafe fn look_up(keys: &mut [pg_sys::ScanKeyData]) {
    for key in keys.iter_mut().filter(|key| key.sk_flags & pg_sys::SK_ROW_HEADER as i32 == 0) {
        let (flags, column, strategy) = (key.sk_flags, key.sk_attno, key.sk_strategy);
        let (function, value, none) = (key.sk_func.fn_oid, key.sk_argument, pg_sys::InvalidOid);
        // SAFETY: the caller's.
        unsafe { raw::ScanKeyEntryInitialize(key, flags, column, strategy, none, C_COLLATION, function, value) }
    }
}

/// A scan of an index, standing on a row after each `next`.
pub struct Scan<'a> {
    scan: pg_sys::IndexScanDesc,
    index: pg_sys::Relation,
    row: RowReader,
    keys: Vec<pg_sys::ScanKeyData>,
    /// Read by the server through a pointer, for as long as the scan lasts.
    _bound: Vec<pg_sys::ScanKeyData>,
    _moment: &'a Moment,
}

impl<'a> Scan<'a> {
    /// Looks for rows whose first index columns are `equal`, and that lie within `bound`.
    pub fn begin(
        table: &'a Table,
        moment: &'a Moment,
        index: &'static CStr,
        equal: &[Key<'_>],
        bound: Option<Bound<'_>>,
    ) -> Self {
        let mut keys = Vec::with_capacity(equal.len() + 1);
        for (place, key) in equal.iter().enumerate() {
            keys.push(scan_key(0, place + 1, pg_sys::BTEqualStrategyNumber, key.equals(), key.datum()));
        }
        let first = equal.len() + 1;
        let mut members = Vec::new();
        match bound {
            None => {}
            Some(Bound::After(value)) => {
                keys.push(scan_key(0, first, pg_sys::BTGreaterStrategyNumber, pg_sys::F_INT4GT, value.into()));
            }
            Some(Bound::From([key]) | Bound::Between([key], _)) => {
                let strategy = pg_sys::BTGreaterEqualStrategyNumber;
                keys.push(scan_key(0, first, strategy, key.is_at_least(), key.datum()));
            }
            Some(Bound::From(values) | Bound::Between(values, _)) => {
                let strategy = pg_sys::BTGreaterEqualStrategyNumber;
                for (place, key) in values.iter().enumerate() {
                    let last = if place + 1 == values.len() { pg_sys::SK_ROW_END } else { 0 };
                    let flags = pg_sys::SK_ROW_MEMBER | last;
                    members.push(scan_key(flags, first + place, strategy, key.compares(), key.datum()));
                }
                keys.push(pg_sys::ScanKeyData {
                    sk_flags: pg_sys::SK_ROW_HEADER as i32,
                    sk_attno: first as i16,
                    sk_strategy: strategy as u16,
                    sk_argument: pg_sys::Datum::from(members.as_mut_ptr()),
                    ..Default::default()
                });
            }
        }
        if let Some(Bound::Between(_, last)) = bound {
            keys.push(scan_key(0, first, pg_sys::BTLessEqualStrategyNumber, last.is_at_most(), last.datum()));
        }
        let id = names::id(index);
        let (count, first) = (keys.len() as i32, keys.as_mut_ptr());
        let (all, row) = (keys.as_mut_slice(), members.as_mut_slice());
        // SAFETY: the index belongs to the table; the keys fit its columns, and they and the snapshot live as long as
        // the scan.
        let (index, scan, slot) = unsafe {
            raw::guarded(|| {
                look_up(all);
                look_up(row);
                let index = raw::index_open(id, pg_sys::AccessShareLock as i32);
                let scan = tables::begin_scan(table.relation, index, moment.0, count);
                raw::index_rescan(scan, first, count, ptr::null_mut(), 0);
                (index, scan, raw::table_slot_create(table.relation, ptr::null_mut()))
            })
        };
        Scan { scan, index, row: RowReader::with(slot, table), keys, _bound: members, _moment: moment }
    }

    /// Looks for the one row with this id.
    pub fn by_id(table: &'a Table, moment: &'a Moment, index: &'static CStr, id: Uuid) -> Self {
        Scan::begin(table, moment, index, &[Key::Id(id)], None)
    }

    /// Begins again with another id.
    pub fn again(&mut self, id: Uuid) {
        self.keys[0].sk_argument = Key::Id(id).datum();
        let (count, first) = (self.keys.len() as i32, self.keys.as_mut_ptr());
        // SAFETY: as in `begin`.
        unsafe { raw::guarded(|| raw::index_rescan(self.scan, first, count, ptr::null_mut(), 0)) }
    }

    /// Goes to the next row that is visible. False: there is none.
    pub fn next(&mut self) -> bool {
        // SAFETY: the scan is open, and the slot fits its table.
        unsafe {
            raw::guarded(|| {
                raw::index_getnext_slot(self.scan, pg_sys::ScanDirection::ForwardScanDirection, self.row.slot)
            })
        }
    }

    pub(super) fn row_id(&self) -> pg_sys::ItemPointer {
        // SAFETY: the slot lives as long as the scan.
        unsafe { &raw mut (*self.row.slot).tts_tid }
    }

    pub(super) fn snapshot(&self) -> pg_sys::Snapshot {
        self._moment.0
    }
}

impl std::ops::Deref for Scan<'_> {
    type Target = RowReader;

    fn deref(&self) -> &RowReader {
        &self.row
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // SAFETY: opened by this value, and closed once.
        unsafe {
            raw::guarded(|| {
                raw::index_endscan(self.scan);
                raw::index_close(self.index, pg_sys::NoLock as i32);
            })
        }
    }
}
