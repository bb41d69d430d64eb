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

/// Whether a role owns a function, or has the rights of the role that does. A superuser does.
pub fn owns_function(role: pg_sys::Oid, function: pg_sys::Oid) -> bool {
    // SAFETY: looks ids up in the catalog.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_proc_ownercheck(function, role);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::ProcedureRelationId, function, role);
    }
}

/// Whether a role may call a function.
pub fn may_execute(role: pg_sys::Oid, function: pg_sys::Oid) -> bool {
    let mode = pg_sys::AclMode::from(pg_sys::ACL_EXECUTE);
    // SAFETY: looks ids up in the catalog.
    let result = unsafe {
        #[cfg(feature = "pg15")]
        let result = pg_sys::pg_proc_aclcheck(function, role, mode);
        #[cfg(not(feature = "pg15"))]
        let result = pg_sys::object_aclcheck(pg_sys::ProcedureRelationId, function, role, mode);
        result
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}
