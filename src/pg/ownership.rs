//! Who owns what.

use pgrx::pg_sys;

/// Whether this session's role owns a database, or has the rights of the role that does.
pub fn owns_database(database: pg_sys::Oid) -> bool {
    // SAFETY: looks an id up in the catalog.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_database_ownercheck(database, pg_sys::GetUserId());
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::DatabaseRelationId, database, pg_sys::GetUserId());
    }
}

/// Whether this session's role owns an extension, or has the rights of the role that does.
pub fn owns_extension(extension: pg_sys::Oid) -> bool {
    // SAFETY: looks an id up in the catalog.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_extension_ownercheck(extension, pg_sys::GetUserId());
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::ExtensionRelationId, extension, pg_sys::GetUserId());
    }
}
