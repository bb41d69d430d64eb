//! Reading and changing the settings in the table `config`. Which keys there are, the rooms say.

use super::settings::Settings;
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::room;
use agentq_core::Refusal;
use agentq_core::config::{self, Key};
use pgrx::prelude::*;

statements!("config.sql": CONFIG_SET);

/// The keys of all rooms.
pub fn keys() -> impl Iterator<Item = &'static Key> + Clone {
    room::all().iter().flat_map(|room| room.settings)
}

pub fn find(name: &str) -> Result<&'static Key, Refusal> {
    config::find(keys(), name)
}

/// What the CHECK on `config` asks: is this a key, and does it accept this value?
#[pg_extern(schema = "agentq_internal", immutable, strict, parallel_safe)]
fn fn_config_accepts(p_key: &str, p_value: Jsonb) -> bool {
    find(p_key).is_ok_and(|key| key.check(p_value.reader(p_key).ok()).is_ok())
}

#[pg_extern(schema = "agentq_internal", immutable, parallel_safe)]
fn fn_config_defaults()
-> TableIterator<'static, (name!(key, String), name!(value, pgrx::JsonB), name!(description, String))> {
    TableIterator::new(
        keys().map(|key| (key.name.to_owned(), pgrx::JsonB(key.default_value()), key.description.to_owned())),
    )
}

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_config_get(p_key: Option<&str>) -> Jsonb {
    bounded!(fn_config_get: p_key);
    let key = find(required("p_key", p_key)).or_raise();
    Jsonb::from_value(Settings::current().value(key.name))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_config_set(p_key: Option<&str>, p_value: Option<Jsonb>) -> Jsonb {
    bounded!(fn_config_set: p_key, p_value);
    let key = find(required("p_key", p_key)).or_raise();
    let value = required("p_value", p_value);
    key.check(value.reader("p_value").ok()).or_raise();
    let now = super::clock::timestamp(super::clock::now());
    let by = actor();
    let args = [key.name.into(), value.into(), now.into(), key.description.into(), by.into()];
    db::answer(|db| db.run(&CONFIG_SET, &args).only())
}
