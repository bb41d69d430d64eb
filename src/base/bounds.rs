//! What callers pass is held to the table of bounds, before anything is made of it.
//!
//! `bounded!` stands at the beginning of every function that callers have: it refuses what is too large, and cuts the
//! texts that are cut.

use super::settings::Settings;
use super::text::shorten;
use super::texts::Texts;
use crate::error::{OrRaise, raise, required};
use crate::json::Jsonb;
use agentq_core::bounds::{self, Bound, LEAST_SETTING};
use agentq_core::error::shown;
use agentq_core::jsonb::Item;
use agentq_core::{Refusal, payload};
use pgrx::prelude::*;

/// Holds arguments of a function to their bounds. An argument without a bound in the table does not compile.
macro_rules! bounded {
    ($function:ident: $($argument:ident),+) => {
        $(let $argument = $crate::base::bounds::Bounded::within(
            $argument,
            stringify!($argument),
            const { agentq_core::bounds::of(stringify!($function), stringify!($argument)) },
        );)+
    };
}
pub(crate) use bounded;

/// What has a bound.
pub trait Bounded {
    /// The value itself, or as much of it as is kept. Raises an error for one that is too large.
    fn within(self, argument: &str, bound: &'static Bound) -> Self;
}

impl<T: Bounded> Bounded for Option<T> {
    #[inline]
    fn within(self, argument: &str, bound: &'static Bound) -> Self {
        self.map(|value| value.within(argument, bound))
    }
}

impl Bounded for &str {
    #[inline]
    fn within(self, argument: &str, bound: &'static Bound) -> Self {
        match bound {
            Bound::Cut(most) if self.len() > *most => shorten(self),
            Bound::Text(most) if self.len() > *most => refuse_text(argument, self, *most),
            _ => self,
        }
    }
}

impl Bounded for Jsonb {
    #[inline]
    fn within(self, argument: &str, bound: &'static Bound) -> Self {
        // No document has a smaller bound.
        if self.size() > LEAST_SETTING {
            check_document(argument, self, bound).or_raise();
        }
        self
    }
}

impl Bounded for Texts {
    fn within(self, argument: &str, bound: &'static Bound) -> Self {
        check_list(argument, self.len(), self.size(), bound).or_raise();
        self
    }
}

#[cold]
fn refuse_text(argument: &str, text: &str, most: usize) -> ! {
    let hint = if most < bounds::SQL {
        "Use a short name, and put long content where payload_ref can point at it."
    } else {
        "Put what it does into a function, and call that."
    };
    let message = format!("{argument} is {} bytes long, more than the {most} allowed: \"{}\"", text.len(), shown(text));
    raise(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message, hint)
}

fn check_document(argument: &str, document: Jsonb, bound: &Bound) -> Result<(), Refusal> {
    match bound {
        Bound::Setting(setting) => check_setting(argument, document.size(), setting),
        Bound::Document(most) => check_size(argument, document.size(), *most),
        Bound::Beside { member, rest: most, .. } => {
            let rest = document.size() - document.container().get(member).map_or(0, size);
            if rest <= *most {
                return Ok(());
            }
            Err(Refusal::new(
                format!("{argument} has {rest} bytes beside {member}, more than the {most} allowed"),
                "Put long content where payload_ref can point at it.",
            ))
        }
        Bound::List { .. } => {
            let elements = if document.is_array() { document.container().len() } else { 0 };
            check_list(argument, elements, document.size(), bound)
        }
        Bound::Text(_) | Bound::Cut(_) => Ok(()),
    }
}

fn size(member: Item<'_>) -> usize {
    match member {
        Item::Text(bytes) | Item::Number(bytes) | Item::Container(bytes) => bytes.len(),
        Item::Null | Item::Bool(_) | Item::Int(_) => 0,
    }
}

fn check_setting(argument: &str, size: usize, setting: &str) -> Result<(), Refusal> {
    let settings = Settings::current();
    let most = if setting == bounds::PAYLOAD_SETTING { settings.payload_max_bytes } else { settings.number(setting) };
    if size as i64 > most {
        return Err(payload::refuse_too_large(argument, size, most, setting));
    }
    Ok(())
}

fn check_size(argument: &str, size: usize, most: usize) -> Result<(), Refusal> {
    if size <= most {
        return Ok(());
    }
    Err(Refusal::new(
        format!("{argument} is {size} bytes, more than the {most} allowed"),
        "Divide it, or keep data where it belongs and point at it.",
    ))
}

fn check_list(argument: &str, found: usize, size: usize, bound: &Bound) -> Result<(), Refusal> {
    let Bound::List { elements, bytes } = bound else { return Ok(()) };
    if found > *elements {
        return Err(Refusal::new(
            format!("{argument} has {found} elements, more than the {elements} allowed"),
            "Send it in several calls.",
        ));
    }
    check_size(argument, size, *bytes)
}

/// Holds an argument of a function that is not written in Rust to its bound: a text of this many bytes, or a list of so
/// many elements and bytes.
#[pg_extern(schema = "agentq_internal", stable, parallel_safe)]
#[search_path(pg_catalog, pg_temp)]
fn fn_bounded(
    p_function: Option<&str>,
    p_argument: Option<&str>,
    p_bytes: Option<i64>,
    p_elements: default!(Option<i64>, "NULL"),
) -> bool {
    let (function, argument) = (required("p_function", p_function), required("p_argument", p_argument));
    let bound = bounds::find(function, argument).unwrap_or_else(|| {
        raise(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("{}({}) has no bound", shown(function), shown(argument)),
            "Name an argument of the table of bounds.",
        )
    });
    let (size, elements) = (p_bytes.unwrap_or(0) as usize, p_elements.unwrap_or(0) as usize);
    match bound {
        Bound::Text(most) | Bound::Cut(most) | Bound::Document(most) => check_size(argument, size, *most).or_raise(),
        _ => check_list(argument, elements, size, bound).or_raise(),
    }
    true
}
