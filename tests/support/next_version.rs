//! The next version, before there is one: a step that the tests install beside the real upgrade scripts, and the schema
//! that it leads to. So the way of an upgrade is walked with every change.

use crate::programs::must_run;
use crate::{pg_bin, project_root};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The version of the project.
pub const CURRENT: &str = env!("CARGO_PKG_VERSION");

/// The version that upgrades to this one begin with; the current one, where there is none before it.
pub fn previous_version() -> &'static str {
    static PREVIOUS: OnceLock<String> = OnceLock::new();
    PREVIOUS.get_or_init(|| {
        let scripts = std::fs::read_dir(project_root().join("sql/upgrade")).into_iter().flatten();
        let names = scripts.filter_map(|script| script.ok()?.file_name().into_string().ok());
        let from =
            |name: String| Some(name.strip_prefix("agentq--")?.strip_suffix(&format!("--{CURRENT}.sql"))?.to_owned());
        names.filter_map(from).next().unwrap_or_else(|| CURRENT.to_owned())
    })
}

/// Installs the step, once for each process; returns the version that it leads to.
pub fn next_version() -> &'static str {
    static NEXT: OnceLock<String> = OnceLock::new();
    NEXT.get_or_init(|| {
        let next = format!("{CURRENT}.next");
        let step = project_root().join(format!("tests/upgrade/agentq--{CURRENT}--{next}.sql"));
        let step = must_run(Command::new(project_root().join("scripts/assemble")).arg(step), b"");
        let folder = extension_folder();
        let read = |name: String| {
            let path = folder.join(name);
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let fresh = [read(format!("agentq--{CURRENT}.sql")), step.clone()].concat();
        write(&folder.join(format!("agentq--{CURRENT}--{next}.sql")), &step);
        write(&folder.join(format!("agentq--{next}.sql")), &fresh);
        next
    })
}

/// Where the server looks for the scripts of extensions.
pub fn extension_folder() -> PathBuf {
    let shared = must_run(Command::new(pg_bin("pg_config")).arg("--sharedir"), b"");
    PathBuf::from(String::from_utf8(shared).expect("a path").trim()).join("extension")
}

/// Puts a file in its place at once, because another process may be reading it.
fn write(path: &PathBuf, content: &[u8]) {
    let new = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, content).unwrap_or_else(|error| panic!("{}: {error}", new.display()));
    std::fs::rename(&new, path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
