//! What goes wrong, one file each. A fault strikes while the load runs, and returns when it is over and the server answers again.

mod clock;
mod cut;
mod databases;
mod disk_full;
mod flood;
mod kills;
mod memory;
pub mod reindex;
mod sessions;
mod strangers;
pub mod upgrade;

use crate::Failure;
use crate::check::Problem;
use crate::dice::Dice;
use crate::load::Manner;
use crate::load::fleet::{Crew, Fleet};
use crate::stage::{Regime, Scene, Stage};
use agentq_tests::Stop;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// kill -9 of workers and producers in the middle of what they do.
    Workers,
    /// kill -9 of a session's process that is claiming: the server restarts all of its processes.
    Backend,
    /// kill -9 of the engine's worker.
    Engine,
    /// kill -9 of the launcher.
    Launcher,
    /// kill -9 of every process of the server at once.
    Server,
    /// kill -9 of the postmaster alone.
    Postmaster,
    /// pg_ctl stop -m immediate, and a start.
    Immediate,
    /// pg_ctl restart.
    Restart,
    /// No space is left for data and WAL.
    DiskFull,
    /// Nothing that load and server send each other arrives.
    Cut,
    /// More connections than there may be.
    Storm,
    /// Statements that are cancelled or time out, and sessions that are ended, at random points.
    Cancels,
    /// Transactions that wait for each other in a ring.
    Deadlocks,
    /// The clock jumps ahead, and back.
    Clock,
    /// REINDEX CONCURRENTLY and VACUUM FREEZE, again and again.
    Reindex,
    /// ALTER EXTENSION UPDATE from an older version, in a database of its own.
    Upgrade,
    /// kill -9 of one after the other, also in the middle of a recovery.
    Barrage,
    /// Transactions of strangers that hold every kind of row.
    Strangers,
    /// A tenant, and another database, that flood keys, lanes, limits, events and missions.
    Flood,
    /// Sessions and the engine that get no more memory.
    Memory,
    /// Many databases with work that is due, and kill -9 of the server.
    Databases,
}

use Fault::*;

/// Whether faults are as the tests have them, or as long as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Short,
    Long,
}

impl Length {
    fn of(self, short: u64, long: u64) -> u64 {
        if self == Length::Short { short } else { long }
    }
}

impl Fault {
    pub const ALL: [Fault; 21] = [
        Workers, Backend, Engine, Launcher, Server, Postmaster, Immediate, Restart, DiskFull, Cut, Storm, Cancels,
        Deadlocks, Reindex, Upgrade, Barrage, Strangers, Flood, Memory, Databases, Clock,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Workers => "kill -9 of workers and producers",
            Backend => "kill -9 of a claiming session",
            Engine => "kill -9 of the engine's worker",
            Launcher => "kill -9 of the launcher",
            Server => "kill -9 of the whole server",
            Postmaster => "kill -9 of the postmaster",
            Immediate => "immediate shutdown",
            Restart => "restart",
            DiskFull => "disk full",
            Cut => "network cut",
            Storm => "connection storm",
            Cancels => "cancels, time-outs and ended sessions",
            Deadlocks => "deadlocks",
            Reindex => "reindex and freeze",
            Upgrade => "upgrade under load",
            Clock => "clock jumps",
            Barrage => "barrage of kill -9",
            Strangers => "transactions held open at every kind of row",
            Flood => "floods of keys, lanes, limits, events and missions",
            Memory => "memory limits",
            Databases => "kill -9 of a server with many databases",
        }
    }

    /// For how many seconds nobody may be told of an ack. The worst that was met, and as much again, where the server goes down;
    /// where it does not, little more than a lease of the load.
    pub fn longest_stall(self) -> f64 {
        match self {
            // Some seconds of them the disk is full, all clocks are wrong, or nothing comes through.
            DiskFull | Clock | Cut => 15.0,
            Upgrade => 30.0,
            Backend | Engine | Launcher | Server | Postmaster | Immediate | Restart | Barrage | Databases => 10.0,
            Workers | Storm | Cancels | Deadlocks | Reindex | Strangers | Flood | Memory => 5.0,
        }
    }

    /// Whether the server is gone for a while, so that there is a time of recovery.
    pub fn stops_the_server(self) -> bool {
        matches!(
            self,
            Backend | Engine | Launcher | Server | Postmaster | Immediate | Restart | DiskFull | Barrage | Databases
        )
    }

    /// Whether it can be had on this machine; if not, why.
    pub fn missing(self, stage: &Stage) -> Option<&'static str> {
        match self {
            DiskFull if stage.disk.is_none() => Some("mounting a disk of its own needs root"),
            Cut if stage.net.is_none() => Some("a network of its own needs root"),
            Engine | Launcher | Databases if stage.regime == Regime::Bare => {
                Some("without the preload there is no engine")
            }
            // A lost commit can be the update itself.
            Upgrade if stage.regime != Regime::Usual => Some("it is tried as recommended"),
            _ => None,
        }
    }

    /// Who works while it strikes.
    pub fn crew(self) -> Crew {
        let manner = Manner {
            hastily: self == Cancels,
            crosswise: self == Deadlocks,
            plainly: self == Upgrade,
            ..Manner::default()
        };
        let meddlers = match self {
            Deadlocks => 4,
            Upgrade => 0,
            _ => 1,
        };
        Crew { producers: 2, workers: 4, meddlers, manner }
    }

    pub fn strike(
        self,
        stage: &mut Stage,
        scene: &mut Scene,
        fleet: &mut Fleet,
        dice: &mut Dice,
        length: Length,
    ) -> Result<Vec<Problem>, Failure> {
        match self {
            Barrage => kills::barrage(stage, scene, dice, length.of(2, 6)),
            Strangers => {
                let found = strangers::strike(stage, scene, Duration::from_secs(length.of(3, 30)))?;
                // In the tests the machine may be busy with something else.
                return Ok(if length == Length::Long { found } else { Vec::new() });
            }
            Flood => flood::strike(stage, scene, length.of(1, 4)),
            Memory => memory::strike(stage, scene, dice),
            Databases => return databases::strike(stage, length.of(6, 20)),
            Workers => kills::workers(fleet, dice),
            Backend => kills::backend(stage, scene),
            Engine => kills::engine(stage, scene, "worker_pid"),
            Launcher => kills::engine(stage, scene, "launcher_pid"),
            Server => kills::server(stage, Stop::KillAll),
            Postmaster => kills::server(stage, Stop::KillPostmaster),
            Immediate => kills::server(stage, Stop::Immediate),
            Restart => kills::server(stage, Stop::Fast),
            DiskFull => disk_full::strike(stage),
            Cut => cut::strike(stage, dice),
            Storm => sessions::storm(stage, scene),
            Cancels => sessions::cancels(stage, scene, dice),
            Deadlocks => sessions::deadlocks(stage, scene),
            Clock => clock::jump(stage, scene, dice),
            Reindex => reindex::strike(stage, scene),
            Upgrade => upgrade::strike(stage, scene),
        }
        .map(|()| Vec::new())
    }
}
