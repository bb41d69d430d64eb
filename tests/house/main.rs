//! What holds for the whole extension: its catalog, access, dumps, upgrades, poolers, documents.

mod access;
mod access_grants;
mod access_traps;
mod catalog;
mod contracts;
mod documents;
mod dump;
mod errors;
mod every_call;
mod filled;
mod imports;
mod lifecycle;
mod pooler;
mod preload;
mod reference;
mod schema_dump;
mod security_catalog;
mod security_roles;
mod security_secrets;
mod security_sources;
mod security_traps;
mod sources;
mod standby;
mod statements;
mod upgrade;
mod writes;
