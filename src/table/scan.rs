//! Finding rows by an index, in its order.

use super::{Column, Moment, Table, relation_id};
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
pub enum Bound<'a> {
    /// At the first row that is not before these values.
    From(&'a [Key<'a>]),
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

    fn is_at_least(self) -> u32 {
        match self {
            Key::Int(_) => pg_sys::F_INT4GE,
            Key::Text(_) => pg_sys::F_TEXT_GE,
            Key::Time(_) => pg_sys::F_TIMESTAMPTZ_GE,
            Key::Id(_) => pg_sys::F_UUID_GE,
        }
    }
}

fn scan_key(flags: u32, column: usize, strategy: u32, function: u32, value: pg_sys::Datum) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: fills the key; the function is one of the server's own.
    unsafe {
        pg_sys::ScanKeyEntryInitialize(
            &mut key,
            flags as i32,
            column as i16,
            strategy as u16,
            pg_sys::InvalidOid,
            C_COLLATION,
            pg_sys::Oid::from_u32(function),
            value,
        );
    }
    key
}

/// A scan of an index, standing on a row after each `next`.
pub struct Scan<'a> {
    scan: pg_sys::IndexScanDesc,
    index: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
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
        index: &CStr,
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
            Some(Bound::From([key])) => {
                let strategy = pg_sys::BTGreaterEqualStrategyNumber;
                keys.push(scan_key(0, first, strategy, key.is_at_least(), key.datum()));
            }
            Some(Bound::From(values)) => {
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
        // SAFETY: the index was just looked up and belongs to the table; the keys fit its columns,
        // and they and the snapshot live as long as the scan.
        unsafe {
            let index = pg_sys::index_open(relation_id(index), pg_sys::AccessShareLock as i32);
            let scan = pg_sys::index_beginscan(table.relation, index, moment.0, keys.len() as i32, 0);
            let slot = pg_sys::table_slot_create(table.relation, ptr::null_mut());
            pg_sys::index_rescan(scan, keys.as_mut_ptr(), keys.len() as i32, ptr::null_mut(), 0);
            Scan { scan, index, slot, keys, _bound: members, _moment: moment }
        }
    }

    /// Looks for the one row with this id.
    pub fn by_id(table: &'a Table, moment: &'a Moment, index: &CStr, id: Uuid) -> Self {
        Scan::begin(table, moment, index, &[Key::Id(id)], None)
    }

    /// Begins again with another id.
    pub fn again(&mut self, id: Uuid) {
        self.keys[0].sk_argument = Key::Id(id).datum();
        // SAFETY: as in `begin`.
        unsafe {
            pg_sys::index_rescan(self.scan, self.keys.as_mut_ptr(), self.keys.len() as i32, ptr::null_mut(), 0);
        }
    }

    /// Goes to the next row that is visible. False: there is none.
    pub fn next(&mut self) -> bool {
        // SAFETY: the scan is open, and the slot fits its table.
        unsafe { pg_sys::index_getnext_slot(self.scan, pg_sys::ScanDirection::ForwardScanDirection, self.slot) }
    }

    pub(super) fn row_id(&self) -> pg_sys::ItemPointer {
        // SAFETY: the slot lives as long as the scan.
        unsafe { &raw mut (*self.slot).tts_tid }
    }

    pub(super) fn snapshot(&self) -> pg_sys::Snapshot {
        self._moment.0
    }

    fn datum(&self, column: Column) -> Option<pg_sys::Datum> {
        let place = column.0;
        // SAFETY: the scan stands on a row, and the column is one of its table's.
        unsafe {
            if usize::from((*self.slot).tts_nvalid as u16) < place {
                pg_sys::slot_getsomeattrs_int(self.slot, place as i32);
            }
            let is_null = *(*self.slot).tts_isnull.add(place - 1);
            (!is_null).then(|| *(*self.slot).tts_values.add(place - 1))
        }
    }

    pub fn is_null(&self, column: Column) -> bool {
        self.datum(column).is_none()
    }

    fn value(&self, column: Column) -> pg_sys::Datum {
        self.datum(column).expect("the column is never NULL")
    }

    pub fn int(&self, column: Column) -> i32 {
        self.value(column).value() as i32
    }

    pub fn bool(&self, column: Column) -> bool {
        self.value(column).value() as u8 != 0
    }

    /// A moment, in microseconds of the server's.
    pub fn time(&self, column: Column) -> i64 {
        self.value(column).value() as i64
    }

    pub fn id(&self, column: Column) -> Uuid {
        self.maybe_id(column).expect("the column is never NULL")
    }

    pub fn maybe_id(&self, column: Column) -> Option<Uuid> {
        // SAFETY: an id is sixteen bytes, which the row holds.
        self.datum(column).map(|datum| Uuid::from_bytes(unsafe { *datum.cast_mut_ptr::<[u8; 16]>() }))
    }

    /// A text, or the bytes of a jsonb, as long as the scan stands on the row.
    pub fn maybe_bytes(&self, column: Column) -> Option<&[u8]> {
        // SAFETY: the column holds a varlena; one stored elsewhere or compressed is copied to
        // memory that outlives this call.
        self.datum(column).map(|datum| unsafe {
            let value = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            std::slice::from_raw_parts(pgrx::vardata_any(value).cast(), pgrx::varsize_any_exhdr(value))
        })
    }

    pub fn bytes(&self, column: Column) -> &[u8] {
        self.maybe_bytes(column).expect("the column is never NULL")
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // SAFETY: opened by this value, and closed once.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::index_endscan(self.scan);
            pg_sys::index_close(self.index, pg_sys::NoLock as i32);
        }
    }
}
