//! Processes of the server, and threads of the tests.

use crate::database::Session;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The memory that a process has for itself alone, in kB.
#[track_caller]
pub fn memory_kb(pid: &str) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("Linux tells it");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

/// The memory that the server has for this session alone, in kB.
#[track_caller]
pub fn memory_of_kb(session: &mut Session) -> i64 {
    memory_kb(&session.text("SELECT pg_backend_pid()"))
}

/// Runs `work` with a session, and says how much more memory that took at its height, in kB.
#[track_caller]
pub fn height_of_kb(session: &mut Session, work: impl FnOnce(&mut Session)) -> i64 {
    let pid = session.text("SELECT pg_backend_pid()");
    let before = memory_kb(&pid);
    // From here on the kernel notes the height anew.
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("the process lives");
    let shared = shared_kb(&pid);
    work(session);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let height = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    let height: i64 = height.trim().trim_end_matches(" kB").parse().expect("a number");
    height - shared.max(shared_kb(&pid)) - before
}

/// The memory that a process has of what all share, in kB.
fn shared_kb(pid: &str) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let of = |name: &str| -> i64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    of("RssShmem:") + of("RssFile:")
}

/// The CPU time that a process has used, in hundredths of a second. Unlike the time that passes, it is the same on a busy
/// machine.
#[track_caller]
pub fn cpu_used(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

/// Raises a flag when dropped, also by a failed test, so that threads which watch it come to an end.
pub struct RaiseAtEnd<'a>(pub &'a AtomicBool);

impl Drop for RaiseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
