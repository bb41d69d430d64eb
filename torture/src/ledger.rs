//! What was confirmed to whom, written down outside the database.
//!
//! Every producer and worker has a file of its own. A line is on disk before its writer goes on: what it is about to ask
//! for, and what it was told. What it asked for and was never told of may have happened or not; the checker allows both.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Microseconds since 1970, by the clock that the server reads too.
pub type Micros = i64;

pub fn now() -> Micros {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as Micros)
}

/// How a holder ends an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Ack,
    Fail,
    Release,
    Snooze,
}

impl End {
    /// The outcome that the attempt then has.
    pub fn outcome(self) -> &'static str {
        match self {
            End::Ack => "succeeded",
            End::Fail => "failed",
            End::Release => "released",
            End::Snooze => "snoozed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Entry {
    /// Is about to enqueue jobs with these keys, in one transaction.
    Enqueueing {
        keys: Vec<String>,
    },
    /// Was told that the job is there.
    Enqueued {
        key: String,
        job: Uuid,
        order: Option<String>,
        duplicate: bool,
    },
    /// Knows that the last enqueue did not happen: it was rolled back, or the server refused it.
    NotEnqueued {
        keys: Vec<String>,
    },
    /// Is about to start a mission with this key, and was told of it.
    Starting {
        key: String,
    },
    Started {
        key: String,
        mission: Uuid,
    },
    NotStarted {
        key: String,
    },
    /// Is about to claim at most `most` jobs.
    Claiming {
        most: u32,
    },
    Claimed {
        job: Uuid,
        token: Uuid,
        until: Micros,
        at: Micros,
    },
    /// Knows that the claim gave nothing, or no more than was written before.
    NotClaimed,
    /// Is about to end an attempt.
    Ending {
        job: Uuid,
        token: Uuid,
        end: End,
        at: Micros,
        with_own_row: bool,
    },
    Ended {
        job: Uuid,
        token: Uuid,
        end: End,
    },
    /// Knows that the last end did not happen: it was rolled back, or the server refused it.
    NotEnded {
        job: Uuid,
        token: Uuid,
    },
    /// Was told that its lease is not its own any more.
    Lost {
        job: Uuid,
        token: Uuid,
        at: Micros,
    },
    Extended {
        job: Uuid,
        token: Uuid,
        until: Micros,
    },
    /// Is about to cancel a job that nobody holds, and was told that it is cancelled.
    Cancelling {
        job: Uuid,
    },
    Cancelled {
        job: Uuid,
    },
    /// Met an error that none of the faults explains.
    Surprised {
        code: String,
        message: String,
        during: String,
    },
    /// Met an error that the faults explain, by its SQLSTATE, or "lost" for a lost connection.
    Disturbed {
        code: String,
    },
}

/// A line of a ledger: an entry, and when it was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub noted: Micros,
    #[serde(flatten)]
    pub entry: Entry,
}

/// Writes one ledger. Nothing goes on before the line is on disk.
pub struct Ledger {
    file: File,
}

impl Ledger {
    pub fn open(path: &Path) -> io::Result<Ledger> {
        Ok(Ledger { file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    pub fn write(&mut self, entries: &[Entry]) -> io::Result<()> {
        let (mut lines, noted) = (Vec::new(), now());
        for entry in entries {
            serde_json::to_writer(&mut lines, &Line { noted, entry: entry.clone() })?;
            lines.push(b'\n');
        }
        self.file.write_all(&lines)?;
        self.file.sync_data()
    }
}

/// Reads the ledgers in a folder, each time only what is new.
pub struct Shelf {
    folder: PathBuf,
    read_up_to: HashMap<String, u64>,
}

impl Shelf {
    pub fn new(folder: &Path) -> Shelf {
        Shelf { folder: folder.to_owned(), read_up_to: HashMap::new() }
    }

    /// The new lines of every ledger, by its name, in the order in which they were written.
    pub fn read(&mut self) -> io::Result<Vec<(String, Vec<Line>)>> {
        let mut names: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            names.extend(entry?.file_name().into_string().ok().filter(|name| name.ends_with(".ledger")));
        }
        names.sort();
        let mut found = Vec::new();
        for name in names {
            let from = self.read_up_to.get(&name).copied().unwrap_or(0);
            let mut file = File::open(self.folder.join(&name))?;
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            // A writer that was killed may have left half a line. It had not gone on, so the line says nothing.
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            let entries = bytes[..whole]
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(serde_json::from_slice)
                .collect::<Result<Vec<Line>, _>>()?;
            self.read_up_to.insert(name.clone(), from + whole as u64);
            found.push((name.trim_end_matches(".ledger").to_owned(), entries));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("agentq-ledger-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// What is new, without the times.
    fn read(shelf: &mut Shelf) -> Vec<(String, Vec<Entry>)> {
        let entries = |lines: Vec<Line>| lines.into_iter().map(|line| line.entry).collect();
        shelf.read().expect("read").into_iter().map(|(name, lines)| (name, entries(lines))).collect()
    }

    #[test]
    fn what_was_written_is_read_once_and_in_order() {
        let folder = folder("order");
        let mut ledger = Ledger::open(&folder.join("w1.ledger")).expect("a ledger");
        let (first, second) = (Entry::Claiming { most: 3 }, Entry::NotClaimed);
        ledger.write(&[first.clone(), second.clone()]).expect("written");
        let mut shelf = Shelf::new(&folder);
        assert_eq!(read(&mut shelf), [("w1".to_owned(), vec![first.clone(), second])]);
        ledger.write(std::slice::from_ref(&first)).expect("written");
        assert_eq!(read(&mut shelf), [("w1".to_owned(), vec![first])]);
        assert_eq!(read(&mut shelf), [("w1".to_owned(), vec![])]);
        std::fs::remove_dir_all(folder).ok();
    }

    #[test]
    fn half_a_line_is_left_until_it_is_whole() {
        let folder = folder("half");
        let path = folder.join("w1.ledger");
        let mut file = File::create(&path).expect("a file");
        let line = serde_json::to_vec(&Line { noted: 1, entry: Entry::NotClaimed }).expect("a line");
        file.write_all(&line[..5]).expect("written");
        let mut shelf = Shelf::new(&folder);
        assert_eq!(read(&mut shelf), [("w1".to_owned(), vec![])]);
        file.write_all(&line[5..]).expect("written");
        file.write_all(b"\n").expect("written");
        assert_eq!(read(&mut shelf), [("w1".to_owned(), vec![Entry::NotClaimed])]);
        std::fs::remove_dir_all(folder).ok();
    }
}
