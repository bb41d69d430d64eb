//! Reading and changing the settings in the table `config`.

use super::settings::Settings;
use crate::db::{self, statement};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use agentq_core::config;
use pgrx::prelude::*;
use serde_json::Value;

statement!(CONFIG_SET, "config_set.sql", [TEXTOID, JSONBOID, TIMESTAMPTZOID, TEXTOID, TEXTOID]);

/// What the CHECK on `config` asks: is this a key, and does it accept this value?
#[pg_extern(immutable, strict, parallel_safe)]
fn fn_config_accepts(p_key: &str, p_value: Jsonb) -> bool {
    config::check(p_key, p_value.reader(p_key).ok()).is_ok()
}

#[pg_extern(immutable, parallel_safe)]
fn fn_config_defaults()
-> TableIterator<'static, (name!(key, String), name!(value, pgrx::JsonB), name!(description, String))> {
    TableIterator::new(config::KEYS.iter().map(|key| {
        let value: Value = serde_json::from_str(key.default).expect("a default is valid JSON");
        (key.name.to_owned(), pgrx::JsonB(value), key.description.to_owned())
    }))
}

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_config_get(p_key: Option<&str>) -> Jsonb {
    let key = required("p_key", p_key);
    config::find(key).or_raise();
    Jsonb::from_value(Settings::current().value(key))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_config_set(p_key: Option<&str>, p_value: Option<Jsonb>) -> Jsonb {
    let key = required("p_key", p_key);
    let value = required("p_value", p_value);
    let description = config::find(key).or_raise().description;
    config::check(key, value.reader("p_value").ok()).or_raise();
    let now = super::clock::timestamp(super::clock::now());
    let by = db::session_user();
    db::answer(|db| db.run(&CONFIG_SET, &[key.into(), value.into(), now.into(), description.into(), by.into()]).must(1))
}
