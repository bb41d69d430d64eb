//! The processes of the load: started, killed, replaced and asked to end.

#![allow(unsafe_code, reason = "tying the life of the load to that of the torture")]

use super::{Manner, Role};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

struct Member {
    role: Role,
    child: Child,
}

/// Whom to start, and with what.
#[derive(Clone, Debug)]
pub struct Crew {
    pub producers: usize,
    pub workers: usize,
    pub meddlers: usize,
    pub manner: Manner,
}

pub struct Fleet {
    program: PathBuf,
    url: String,
    ledgers: PathBuf,
    members: Vec<Member>,
    crew: Crew,
    started: u64,
    /// Tells the processes of this fleet from those of another that writes into the same folder.
    name: String,
    seed: u64,
}

impl Fleet {
    /// A fleet of this program's own processes, which write their ledgers into that folder.
    pub fn new(program: &Path, url: &str, ledgers: &Path, name: &str, seed: u64, crew: Crew) -> Fleet {
        let (program, ledgers) = (program.to_owned(), ledgers.to_owned());
        Fleet {
            program,
            url: url.to_owned(),
            ledgers,
            members: Vec::new(),
            crew,
            started: 0,
            name: name.to_owned(),
            seed,
        }
    }

    pub fn start(&mut self) {
        let roles = [
            (Role::Producer, self.crew.producers),
            (Role::Worker, self.crew.workers),
            (Role::Meddler, self.crew.meddlers),
        ];
        for (role, count) in roles {
            (0..count).for_each(|_| self.hire(role));
        }
    }

    fn hire(&mut self, role: Role) {
        self.started += 1;
        // A name is never used again: who has it, has all of its ledger.
        let name = format!("{}-{}-{}", self.name, role.name(), self.started);
        let mut command = Command::new(&self.program);
        command.arg(role.name()).arg(&self.url).arg(&name);
        command.arg(self.ledgers.join(format!("{name}.ledger")));
        command.arg((self.seed ^ self.started).to_string()).arg(self.crew.manner.to_words());
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // SAFETY: prctl is async-signal-safe and touches only the child.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().expect("a process of the load starts");
        self.members.push(Member { role, child });
    }

    /// kill -9 of one process with that role, and another in its place.
    pub fn kill_one(&mut self, role: Role, which: u64) {
        let of_role: Vec<usize> = (0..self.members.len()).filter(|n| self.members[*n].role == role).collect();
        let Some(victim) = of_role.get(which as usize % of_role.len().max(1)) else { return };
        let mut member = self.members.swap_remove(*victim);
        member.child.kill().ok();
        member.child.wait().ok();
        self.hire(role);
    }

    /// Asks everybody to end, and waits until they have.
    pub fn stop(&mut self) {
        for member in &mut self.members {
            drop(member.child.stdin.take());
        }
        for mut member in self.members.drain(..) {
            let status = member.child.wait().expect("it can be waited for");
            assert!(status.success(), "a {} of the load failed: {status}", member.role.name());
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for member in &mut self.members {
            member.child.kill().ok();
            member.child.wait().ok();
        }
    }
}
