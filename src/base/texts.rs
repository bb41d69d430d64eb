//! A list of texts that a caller passes, read where the server has put it.
//!
//! Rust makes nothing of it before it is known to be within its bound: an allocation of Rust's that fails ends the server.

#![allow(unsafe_code, reason = "raw arrays")]

use pgrx::callconv::{Arg, ArgAbi};
use pgrx::nullable::Nullable;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{FromDatum, pg_sys};

/// A text[] as the server holds it, taken apart into its elements.
#[derive(Clone, Copy)]
pub struct Texts {
    elements: *mut pg_sys::Datum,
    nulls: *mut bool,
    len: usize,
}

impl Texts {
    pub fn len(self) -> usize {
        self.len
    }

    /// The bytes of its elements together.
    pub fn size(self) -> usize {
        self.each().map(<[u8]>::len).sum()
    }

    /// Its elements that are not NULL.
    pub fn texts(self) -> impl Iterator<Item = &'static str> {
        self.each().map(|bytes| std::str::from_utf8(bytes).unwrap_or_default())
    }

    fn each(self) -> impl Iterator<Item = &'static [u8]> {
        (0..self.len).filter_map(move |at| {
            // SAFETY: both lists have as many entries, and an element that is not NULL is a text. They live as long as the call.
            unsafe {
                let text = (!*self.nulls.add(at)).then(|| (*self.elements.add(at)).cast_mut_ptr())?;
                Some(std::slice::from_raw_parts(pgrx::vardata_any(text).cast(), pgrx::varsize_any_exhdr(text)))
            }
        })
    }
}

impl FromDatum for Texts {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        let (mut elements, mut nulls, mut len) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        // SAFETY: the caller says that it is a text[]; the server allocates the lists, and raises an error if it cannot.
        unsafe {
            let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast();
            let align = b'i' as core::ffi::c_char;
            pg_sys::deconstruct_array(array, pg_sys::TEXTOID, -1, false, align, &mut elements, &mut nulls, &mut len);
        }
        Some(Texts { elements, nulls, len: len as usize })
    }
}

// SAFETY: the argument is read as the text[] that SQL declares it to be.
unsafe impl<'fcx> ArgAbi<'fcx> for Texts {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        unsafe { arg.unbox_arg_using_from_datum() }.expect("a strict argument is never NULL")
    }

    unsafe fn unbox_nullable_arg(arg: Arg<'_, 'fcx>) -> Nullable<Self> {
        unsafe { arg.unbox_arg_using_from_datum() }.into()
    }
}

// SAFETY: it is passed as text[].
unsafe impl SqlTranslatable for Texts {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(Texts);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("TEXT[]"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("TEXT[]")));
}
