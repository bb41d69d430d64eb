//! What this runtime can do, for catalogs that ask for it.

use crate::json::Jsonb;
use agentq_core::effects::CAPABILITIES;
use pgrx::prelude::*;
use serde_json::{Value, json};

#[pg_extern(immutable, parallel_safe)]
fn fn_runtime_capabilities() -> Jsonb {
    let each = CAPABILITIES.iter().map(|(name, has, how)| ((*name).to_owned(), json!({"has": has, "how": how})));
    let capabilities: serde_json::Map<String, Value> = each.collect();
    Jsonb::from_value(json!({"ok": true, "code": "found", "runtime": "agentq", "capabilities": capabilities}))
}
