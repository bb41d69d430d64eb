//! Processes of the server, as others can reach them.

use crate::server;
use pgrx::prelude::*;

/// A process that can be woken. It may have ended since: then a wake-up does nothing, or wakes
/// another one for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    number: i32,
}

impl Process {
    pub const NONE: Process = Process { pid: 0, number: -1 };

    /// This process.
    pub fn me() -> Process {
        Process { pid: server::my_pid(), number: server::my_process_number() }
    }

    /// The process in that place of the server's list; its pid is not known.
    pub fn numbered(number: i32) -> Process {
        Process { pid: 0, number }
    }

    pub fn number(self) -> u32 {
        self.number as u32
    }

    pub fn is_some(self) -> bool {
        self.pid != 0
    }

    /// Wakes it from waiting for its latch.
    pub fn wake(self) {
        if self.number >= 0 {
            // SAFETY: the array has a place for every process there can be, and stays where it is.
            unsafe {
                let process = (*pg_sys::ProcGlobal).allProcs.add(self.number as usize);
                pg_sys::SetLatch(&raw mut (*process).procLatch);
            }
        }
    }

    /// Whether a process with this pid is there.
    pub fn is_alive(self) -> bool {
        server::has_process(self.pid)
    }

    /// Asks it to end, as pg_terminate_backend does.
    pub fn terminate(self) {
        if self.is_alive() {
            // SAFETY: the pid was just found to be one of the server's own processes.
            unsafe { kill(self.pid, pg_sys::SIGTERM as i32) };
        }
    }
}

unsafe extern "C" {
    fn kill(pid: i32, signal: i32) -> i32;
}

/// Waits until this process is woken, for at most `at_most_us` microseconds.
pub fn sleep(at_most_us: i64) {
    is_woken_within(at_most_us);
}

/// The same, and whether it was woken.
pub fn is_woken_within(at_most_us: i64) -> bool {
    let ms = (at_most_us.max(0) + 999) / 1000;
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: the latch is this process's own.
    let came = unsafe {
        let came = pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, ms, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ResetLatch(pg_sys::MyLatch);
        came as u32
    };
    pgrx::check_for_interrupts!();
    came & pg_sys::WL_LATCH_SET != 0
}
