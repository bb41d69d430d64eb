//! What holds for the whole extension: its catalog, access, dumps, upgrades, poolers, documents.

mod contracts;
