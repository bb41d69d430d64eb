//! What differs from one major version of PostgreSQL to the next, a module for each concern. Nothing else asks which
//! version it is built for.
//!
//! Functions of the server that pgrx does not offer, or not without a guard, are declared by hand. `declared!` holds them to
//! the types that pgrx has read from the headers of the version at hand, so that one that has changed does not compile.

#![allow(unsafe_code, reason = "the server's own calls")]

pub mod locks;
pub mod ownership;
pub mod process;
pub mod search_path;
pub mod signals;
pub mod tables;
pub mod timeouts;

/// Declares functions of the server as they are, without the guard that pgrx puts around them, and checks their types.
macro_rules! declared {
    ($(pub fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        unsafe extern "C-unwind" {
            $(pub fn $name($($argument: $type),*) $(-> $result)?;)*
        }
        const _: () = {
            $(let _: unsafe fn($($type),*) $(-> $result)? = pgrx::pg_sys::$name;)*
        };
    };
}
pub(crate) use declared;
