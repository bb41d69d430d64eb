//! `jsonb` values that pass through without being parsed.
//!
//! Going through serde costs a quarter of a call's speed, so the hot path hands the server's own
//! values from argument to statement and from statement to result.

#![allow(unsafe_code, reason = "the one place that handles raw jsonb values")]

use crate::base::clock::Micros;
use crate::error::raise;
use crate::memory;
use agentq_core::Refusal;
use agentq_core::jsonb::{self, Container, Item};
use agentq_core::reader::{Bounds, Reader};
use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::nullable::Nullable;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::prelude::PgSqlErrorCode;
use pgrx::{FromDatum, IntoDatum, JsonB, direct_function_call, pg_sys};
use serde_json::Value;
use std::cell::RefCell;
use std::ffi::CStr;

/// A jsonb value as the server holds it, detoasted.
#[derive(Clone, Copy, Debug)]
pub struct Jsonb(pg_sys::Datum);

const OBJECT_FLAG: u32 = 0x2000_0000;
const ARRAY_FLAG: u32 = 0x4000_0000;
const SCALAR_FLAG: u32 = 0x1000_0000;

impl Jsonb {
    /// Builds one from a parsed value; for answers off the hot path.
    pub fn from_value(value: Value) -> Self {
        Self(JsonB(value).into_datum().expect("a JSON value is never NULL"))
    }

    pub fn empty_object() -> Self {
        Self::from_container(&object(&mut []))
    }

    /// Builds one from its binary form.
    pub fn from_container(container: &[u8]) -> Self {
        // SAFETY: a varlena is its length, then its bytes; the memory is of the caller's context.
        unsafe {
            let size = container.len() + pg_sys::VARHDRSZ;
            let value = pg_sys::palloc(size).cast::<pg_sys::varlena>();
            pgrx::set_varsize_4b(value, size as i32);
            std::ptr::copy_nonoverlapping(
                container.as_ptr(),
                pgrx::vardata_4b(value).cast_mut().cast(),
                container.len(),
            );
            Self(value.into())
        }
    }

    /// Builds one from a value inside another.
    pub fn from_item(item: Item<'_>) -> Self {
        Self::from_container(&jsonb::root(item).unwrap_or_else(|_| too_large()))
    }

    /// Its binary form, as long as the value lives.
    pub fn container<'a>(self) -> Container<'a> {
        Container::new(self.bytes())
    }

    fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: `self` always holds a detoasted varlena, which lives as long as the call.
        unsafe {
            let value = self.0.cast_mut_ptr();
            std::slice::from_raw_parts(pgrx::vardata_any(value).cast(), pgrx::varsize_any_exhdr(value))
        }
    }

    /// Opens it for reading, where it stands. What the server can store and Rust cannot read (numbers
    /// beyond 1e308, 128 levels), or should not (tens of megabytes), is refused.
    pub fn reader(self, what: &str) -> Result<Reader<'_>, Refusal> {
        Reader::open(what, self.item())
    }

    /// Reads it into Rust, for what is changed or kept there. What `reader` refuses is refused, and
    /// what would take more than ten times its size.
    pub fn parse(self, what: &str) -> Result<Value, Refusal> {
        Bounds::DOCUMENT.parse(what, self.item())
    }

    /// Its value, as long as it lives.
    pub fn item<'a>(self) -> Item<'a> {
        self.container().item()
    }

    /// Its size in bytes, as the server stores it uncompressed.
    pub fn size(self) -> usize {
        // SAFETY: `self` always holds a detoasted varlena.
        unsafe { pgrx::varsize_any_exhdr(self.0.cast_mut_ptr()) }
    }

    fn header(self) -> u32 {
        // SAFETY: every jsonb value begins with a four-byte container header.
        unsafe { pgrx::vardata_any(self.0.cast_mut_ptr()).cast::<u32>().read_unaligned() }
    }

    pub fn is_object(self) -> bool {
        self.header() & OBJECT_FLAG != 0
    }

    pub fn is_array(self) -> bool {
        self.header() & (ARRAY_FLAG | SCALAR_FLAG) == ARRAY_FLAG
    }

    /// The value of a key at its top level.
    pub fn member(self, key: &str) -> Option<Jsonb> {
        // SAFETY: both arguments are of the types that the function takes, which answers with a jsonb.
        unsafe { direct_function_call(pg_sys::jsonb_object_field, &[Some(self.0), key.into_datum()]) }
    }

    /// The object without a key; anything else as it is.
    pub fn without(self, key: &str) -> Jsonb {
        if !self.is_object() {
            return self;
        }
        // SAFETY: both arguments are of the types that the function takes, which answers with a jsonb.
        unsafe { direct_function_call(pg_sys::jsonb_delete, &[Some(self.0), key.into_datum()]) }.unwrap_or(self)
    }

    /// The object with the members of another, which win.
    pub fn merged(self, other: Jsonb) -> Jsonb {
        // SAFETY: both arguments are of the types that the function takes, which answers with a jsonb.
        unsafe { direct_function_call(pg_sys::jsonb_concat, &[Some(self.0), Some(other.0)]) }.unwrap_or(self)
    }

    /// The object with one more member, whose value is not parsed.
    pub fn with(self, key: &str, value: Jsonb) -> Jsonb {
        self.merged(Self::from_container(&object(&mut [(key, value.container().item())])))
    }

    /// Whether it is an object that has this key.
    pub fn has_key(self, key: &str) -> bool {
        self.is_object() && self.container().get(key).is_some()
    }

    /// A copy that outlives the row it was read from.
    pub fn copied(self) -> Self {
        Self::from_container(self.bytes())
    }

    /// Copies it to where it outlives the SQL connection it was read from.
    pub fn beyond_connection(self) -> Self {
        // SAFETY: called while connected; jsonb is a varlena passed by reference.
        Self(unsafe { pg_sys::SPI_datumTransfer(self.0, false, -1) })
    }
}

/// The options of a call: an object with no other keys than these. NULL has none.
pub fn options<'a>(options: Option<Jsonb>, accepted: &[&str]) -> Result<Reader<'a>, Refusal> {
    let options = options.map_or_else(|| Ok(Reader::empty("p_options")), |options| options.reader("p_options"))?;
    options.object(accepted)?;
    Ok(options)
}

/// An object in the server's binary form.
pub fn object(members: &mut [(&str, Item<'_>)]) -> Vec<u8> {
    jsonb::object(members).unwrap_or_else(|_| too_large())
}

/// An array in the server's binary form.
pub fn array<'a>(items: impl ExactSizeIterator<Item = Item<'a>>) -> Vec<u8> {
    jsonb::array(items).unwrap_or_else(|_| too_large())
}

fn too_large() -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        "the answer would be larger than 256 MB",
        "Ask for fewer jobs at a time.",
    )
}

/// The text of a moment, as the server writes it in JSON: ISO 8601 in the session's time zone.
#[derive(Clone, Copy)]
pub struct MomentText([core::ffi::c_char; MOMENT_SIZE]);
const MOMENT_SIZE: usize = pg_sys::MAXDATELEN as usize + 1;

/// The moments that this session has told last, each with its time zone. The jobs of a batch have theirs in common.
struct Told {
    moments: [(Micros, *mut pg_sys::pg_tz, MomentText); 4],
    next: usize,
}

thread_local!(static TOLD: RefCell<Told> = const {
    RefCell::new(Told { moments: [(0, std::ptr::null_mut(), MomentText([0; MOMENT_SIZE])); 4], next: 0 })
});

pub fn moment(at: Micros) -> MomentText {
    let zone = crate::server::time_zone();
    TOLD.with_borrow_mut(|told| {
        if let Some((_, _, text)) = told.moments.iter().find(|(then, there, _)| *then == at && *there == zone) {
            return *text;
        }
        let text = write_moment(at);
        told.moments[told.next] = (at, zone, text);
        told.next = (told.next + 1) % told.moments.len();
        text
    })
}

fn write_moment(at: Micros) -> MomentText {
    let mut text = MomentText([0; MOMENT_SIZE]);
    // SAFETY: the buffer has the size that the call asks for.
    unsafe {
        let at = pg_sys::Datum::from(at);
        pg_sys::JsonEncodeDateTime(text.0.as_mut_ptr(), at, pg_sys::TIMESTAMPTZOID, std::ptr::null());
    }
    text
}

impl MomentText {
    pub fn item(&self) -> Item<'_> {
        // SAFETY: the server has ended the text with a NUL.
        Item::Text(unsafe { CStr::from_ptr(self.0.as_ptr()) }.to_bytes())
    }
}

impl FromDatum for Jsonb {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller says that it is a jsonb datum; detoasting leaves a plain one as it is.
        let value = Self(unsafe { pg_sys::pg_detoast_datum(datum.cast_mut_ptr()) }.into());
        memory::must_suffice_for(value.size());
        Some(value)
    }
}

impl IntoDatum for Jsonb {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        Some(self.0)
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::JSONBOID
    }
}

// SAFETY: the argument is read as the jsonb that SQL declares it to be.
unsafe impl<'fcx> ArgAbi<'fcx> for Jsonb {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        unsafe { arg.unbox_arg_using_from_datum() }.expect("a strict argument is never NULL")
    }

    unsafe fn unbox_nullable_arg(arg: Arg<'_, 'fcx>) -> Nullable<Self> {
        unsafe { arg.unbox_arg_using_from_datum() }.into()
    }
}

// SAFETY: the datum is a jsonb in a memory context of the caller.
unsafe impl BoxRet for Jsonb {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        unsafe { fcinfo.return_raw_datum(self.0) }
    }
}

// SAFETY: it is passed and returned as jsonb.
unsafe impl SqlTranslatable for Jsonb {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(Jsonb);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("jsonb"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("jsonb")));
}

/// Reads a timestamp as the server does. None: it is not one.
pub fn parse_timestamp(text: &str) -> Option<pgrx::datum::TimestampWithTimeZone> {
    let text = std::ffi::CString::new(text).ok()?;
    // SAFETY: an input function of the server's, which reads its argument and raises at most an
    // error; it holds nothing that the error would have to release.
    pgrx::PgTryBuilder::new(|| unsafe {
        let args = [text.as_c_str().into_datum(), 0_i32.into_datum(), (-1_i32).into_datum()];
        direct_function_call(pg_sys::timestamptz_in, &args)
    })
    .catch_others(|_| None)
    .execute()
}
