//! Networks of the tests' own, which lose what they are told to lose.
//!
//! Each node is a network namespace with one address, and one more namespace routes between them. What is cut is dropped
//! there without a word, as by a router that has died: no connection is refused, and nobody is told. The addresses exist in
//! these namespaces only. Making them needs root and `ip`; they go with the value, and those of runs that were killed when
//! the next network is made.

#![allow(unsafe_code, reason = "a thread enters a namespace")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the nodes have their addresses: one of the networks that nobody routes to.
pub const SUBNET: &str = "10.214.97.0/24";
/// What a client adds to its connection, to give up a server that it does not hear of for some seconds.
pub const CLIENT_SETTINGS: &str = "tcp_user_timeout=3 keepalives_idle=1 keepalives_interval=1 keepalives_retries=3";
/// And what a server needs for that.
pub const SERVER_SETTINGS: [&str; 7] = [
    "tcp_keepalives_idle = 2",
    "tcp_keepalives_interval = 1",
    "tcp_keepalives_count = 3",
    "tcp_user_timeout = 4000",
    "client_connection_check_interval = 1s",
    "wal_sender_timeout = 3s",
    "wal_receiver_timeout = 3s",
];
/// What the names of all namespaces begin with, before the number of the process.
const PREFIX: &str = "agentq";

/// One end of the network.
#[derive(Clone, Debug)]
pub struct Node {
    namespace: String,
    pub address: String,
}

pub struct Net {
    router: String,
    nodes: Vec<Node>,
}

fn ip(arguments: &str) -> Result<String, String> {
    let out = Command::new("ip").args(arguments.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&out.stderr).trim())),
    }
}

impl Net {
    /// A network with this many nodes, which all reach each other; or why there can be none here.
    pub fn new(nodes: usize) -> Result<Net, String> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } != 0 {
            return Err("a network of its own needs root".to_owned());
        }
        remove_leftovers()?;
        let name = format!("{PREFIX}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
        let node =
            |n: usize| Node { namespace: format!("{name}-{n}"), address: SUBNET.replace("0/24", &n.to_string()) };
        let net = Net { router: format!("{name}-router"), nodes: (1..=nodes).map(node).collect() };
        net.build()?;
        Ok(net)
    }

    fn build(&self) -> Result<(), String> {
        let router = &self.router;
        ip(&format!("netns add {router}"))?;
        let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").map_err(|error| error.to_string());
        within(router, forward)?;
        let gateway = SUBNET.replace("0/24", "254");
        for (n, Node { namespace, address }) in self.nodes.iter().enumerate() {
            for step in [
                format!("netns add {namespace}"),
                format!("-n {namespace} link set lo up"),
                format!("link add out netns {namespace} type veth peer name to{n} netns {router}"),
                format!("-n {namespace} addr add {address}/32 dev out"),
                format!("-n {router} addr add {gateway}/32 dev to{n}"),
                format!("-n {namespace} link set out up"),
                format!("-n {router} link set to{n} up"),
                format!("-n {namespace} route add default via {gateway} dev out onlink"),
                format!("-n {router} route add {address}/32 dev to{n}"),
            ] {
                ip(&step)?;
            }
        }
        Ok(())
    }

    pub fn node(&self, n: usize) -> &Node {
        &self.nodes[n]
    }

    /// From now on nothing that one of these sends reaches the other.
    #[track_caller]
    pub fn cut(&self, one: &Node, other: &Node) {
        self.rules("add", one, other);
    }

    #[track_caller]
    pub fn heal(&self, one: &Node, other: &Node) {
        self.rules("del", one, other);
    }

    #[track_caller]
    fn rules(&self, what: &str, one: &Node, other: &Node) {
        for (from, to) in [(one, other), (other, one)] {
            let rule = format!("-n {} rule {what} from {} to {} blackhole", self.router, from.address, to.address);
            ip(&rule).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in self.nodes.iter().map(|node| &node.namespace).chain([&self.router]) {
            ip(&format!("netns del {name}")).ok();
        }
    }
}

impl Node {
    /// This thread, and what it starts, is at the node from now on.
    pub fn enter(&self) {
        enter(&self.namespace);
    }

    /// Does something at the node. Connections that are made there stay there.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.namespace, work)
    }
}

fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            enter(namespace);
            work()
        });
        there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn enter(namespace: &str) {
    let path = PathBuf::from("/run/netns").join(namespace);
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // SAFETY: changes where this thread's sockets are made from now on, and nothing else.
    let entered = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(entered, 0, "{}: {}", path.display(), std::io::Error::last_os_error());
}

/// Removes the namespaces of runs that are over. Their names carry the run's process id.
fn remove_leftovers() -> Result<(), String> {
    for line in ip("netns list")?.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let run =
            name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').nth(1)).and_then(|pid| pid.parse::<u32>().ok());
        if run.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            ip(&format!("netns del {name}")).ok();
        }
    }
    Ok(())
}
