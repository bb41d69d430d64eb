//! Two servers, of which one follows the other, and their change of roles.

use agentq_tests::net::{CLIENT_SETTINGS, Node, SERVER_SETTINGS};
use agentq_tests::{Cluster, Options, Stop, eventually};

const SETTINGS: [&str; 9] = [
    // What was confirmed must be on disk: the tests' own clusters have this off.
    "fsync = on",
    "max_connections = 60",
    "shared_buffers = 64MB",
    "max_worker_processes = 20",
    // Without it pg_rewind cannot take back what only the old primary had.
    "wal_log_hints = on",
    "wal_keep_size = 256MB",
    "wal_retrieve_retry_interval = 100ms",
    "hot_standby_feedback = on",
    "log_error_verbosity = terse",
];

pub struct Pair {
    pub primary: Cluster,
    pub standby: Cluster,
}

impl Pair {
    pub fn new(name: &str) -> Pair {
        Self::start(name, &[], [None, None])
    }

    /// A pair at two nodes of a network.
    pub fn at(name: &str, nodes: [&Node; 2]) -> Pair {
        Self::start(name, &SERVER_SETTINGS, nodes.map(|node| Some(node.clone())))
    }

    fn start(name: &str, more: &[&str], [one, two]: [Option<Node>; 2]) -> Pair {
        let settings = SETTINGS.iter().chain(more).map(|line| (*line).to_owned()).collect();
        let options = Options { engine: true, settings, node: one, ..Options::default() };
        let primary = Cluster::start(&format!("{name}-one"), &options);
        let standby = Cluster::standby_at(&primary, &format!("{name}-two"), two);
        Pair { primary, standby }
    }

    /// For a client that wants whichever of the two is the primary, and gives one up that it does not hear of for three seconds.
    pub fn url(&self, database: &str) -> String {
        let mut servers = [&self.primary, &self.standby].map(|server| (server.address(), server.port));
        // As a client has it: which of them leads, it does not know.
        servers.sort_unstable();
        let [(one, port), (other, other_port)] = servers;
        format!(
            "host={one},{other} port={port},{other_port} user=postgres dbname={database} target_session_attrs=read-write \
             {CLIENT_SETTINGS}"
        )
    }

    /// From now on the primary confirms what its standby has on disk too. Returns when that holds.
    pub fn make_synchronous(&self) {
        let mut admin = self.primary.session("postgres");
        admin.run("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'");
        admin.run("SELECT pg_reload_conf()");
        eventually("the standby is synchronous", || {
            admin.count("pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'") == 1
        });
    }

    /// kill -9 of every process of the primary; the standby is the primary then.
    pub fn fail_over(&mut self) {
        self.primary.end(Stop::KillAll);
        self.standby.promote();
        std::mem::swap(&mut self.primary, &mut self.standby);
    }

    /// The one that was killed follows the other.
    pub fn rejoin(&mut self) {
        self.standby.rejoin(&self.primary);
        let mut admin = self.primary.session("postgres");
        eventually("the old primary follows", || admin.count("pg_stat_replication WHERE state = 'streaming'") == 1);
    }
}
