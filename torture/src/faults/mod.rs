//! What goes wrong, one file each. A fault strikes while the load runs, and returns when it is over and the server answers again.

mod clock;
mod disk_full;
mod kills;
pub mod reindex;
mod sessions;
pub mod upgrade;

use crate::Failure;
use crate::dice::Dice;
use crate::load::Manner;
use crate::load::fleet::{Crew, Fleet};
use crate::stage::{Scene, Stage};
use agentq_tests::Stop;

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
}

use Fault::*;

impl Fault {
    pub const ALL: [Fault; 15] = [
        Workers, Backend, Engine, Launcher, Server, Postmaster, Immediate, Restart, DiskFull, Storm, Cancels,
        Deadlocks, Reindex, Upgrade, Clock,
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
            Storm => "connection storm",
            Cancels => "cancels, time-outs and ended sessions",
            Deadlocks => "deadlocks",
            Reindex => "reindex and freeze",
            Upgrade => "upgrade under load",
            Clock => "clock jumps",
        }
    }

    /// Whether the server is gone for a while, so that there is a time of recovery.
    pub fn stops_the_server(self) -> bool {
        matches!(self, Backend | Engine | Launcher | Server | Postmaster | Immediate | Restart | DiskFull)
    }

    pub fn kills_the_server(self) -> bool {
        matches!(self, Server | Postmaster)
    }

    /// Whether it can be had on this machine; if not, why.
    pub fn missing(self, stage: &Stage) -> Option<&'static str> {
        (self == DiskFull && stage.disk.is_none()).then_some("mounting a disk of its own needs root")
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
    ) -> Result<(), Failure> {
        match self {
            Workers => kills::workers(fleet, dice),
            Backend => kills::backend(stage, scene),
            Engine => kills::engine(stage, scene, "worker_pid"),
            Launcher => kills::engine(stage, scene, "launcher_pid"),
            Server => kills::server(stage, Stop::KillAll),
            Postmaster => kills::server(stage, Stop::KillPostmaster),
            Immediate => kills::server(stage, Stop::Immediate),
            Restart => kills::server(stage, Stop::Fast),
            DiskFull => disk_full::strike(stage),
            Storm => sessions::storm(stage, scene),
            Cancels => sessions::cancels(stage, scene, dice),
            Deadlocks => sessions::deadlocks(stage, scene),
            Clock => clock::jump(stage, scene, dice),
            Reindex => reindex::strike(stage, scene),
            Upgrade => upgrade::strike(stage, scene),
        }
    }
}
