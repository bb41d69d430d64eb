//! Whoever calls `fn_engine_tick()` where no engine runs: a scheduler of the operator's.

use postgres::{Client, NoTls};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(300);

pub struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub fn start(url: &str) -> Ticker {
        let (stop, url) = (Arc::new(AtomicBool::new(false)), url.to_owned());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut client: Option<Client> = None;
            while !stopped.load(SeqCst) {
                // The server may be down; then it is asked again.
                client = client.filter(|client| !client.is_closed()).or_else(|| Client::connect(&url, NoTls).ok());
                if let Some(client) = &mut client {
                    client.batch_execute("SELECT agentq.fn_engine_tick()").ok();
                }
                std::thread::sleep(EVERY);
            }
        });
        Ticker { stop, thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}
