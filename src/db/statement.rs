//! Statements: named blocks of the `.sql` files beside the modules, read when the library is compiled.

use crate::base::settings::is_schema_previous;
use agentq_core::statement::{Block, MOST_PARAMETERS, Type};
use pgrx::pg_sys::{self, Oid};

/// A statement and the types of its parameters.
pub struct Statement {
    pub name: &'static str,
    sql: &'static str,
    /// The statement for the schema of the version before, if that needs another one.
    before: Option<&'static str>,
    types: [Oid; MOST_PARAMETERS],
    count: usize,
    /// Whether its plan is pinned to indexes. A statement that reads much may be planned freely.
    pub pinned: bool,
}

impl Statement {
    pub const fn new(name: &'static str, block: Block, before: Option<&'static str>) -> Statement {
        let mut types = [pg_sys::InvalidOid; MOST_PARAMETERS];
        let mut number = 0;
        while number < block.count {
            types[number] = oid(block.types[number]);
            number += 1;
        }
        Statement { name, sql: block.sql, before, types, count: block.count, pinned: !block.freely }
    }

    /// The text that fits the schema.
    pub fn sql(&self) -> &'static str {
        self.before.filter(|_| is_schema_previous()).unwrap_or(self.sql)
    }

    pub fn types(&self) -> &[Oid] {
        &self.types[..self.count]
    }
}

const fn oid(named: Type) -> Oid {
    match named {
        Type::Bool => pg_sys::BOOLOID,
        Type::Float8 => pg_sys::FLOAT8OID,
        Type::Int4 => pg_sys::INT4OID,
        Type::Int4Array => pg_sys::INT4ARRAYOID,
        Type::Int8 => pg_sys::INT8OID,
        Type::Int8Array => pg_sys::INT8ARRAYOID,
        Type::Jsonb => pg_sys::JSONBOID,
        Type::Oid => pg_sys::OIDOID,
        Type::Text => pg_sys::TEXTOID,
        Type::TextArray => pg_sys::TEXTARRAYOID,
        Type::TimestampTz => pg_sys::TIMESTAMPTZOID,
        Type::TimestampTzArray => pg_sys::TIMESTAMPTZARRAYOID,
        Type::Uuid => pg_sys::UUIDOID,
        Type::UuidArray => pg_sys::UUIDARRAYOID,
    }
}

/// Declares statements from a file of blocks: `statements!("jobs.sql": JOB_LOCK, JOB_END);`
macro_rules! statements {
    ($file:literal: $($visible:vis $name:ident),+ $(,)?) => {
        $($visible static $name: $crate::db::Statement = $crate::db::Statement::new(
            stringify!($name),
            const { agentq_core::statement::find(include_str!($file), stringify!($name)) },
            const {
                let block = agentq_core::statement::find(include_str!($file), stringify!($name));
                agentq_core::statement::find_before(include_str!($file), stringify!($name), &block)
            },
        );)+
    };
}
pub(crate) use statements;
