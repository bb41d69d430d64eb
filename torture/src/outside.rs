//! What lies outside the database: rooms that are booked and given back, each known by its key, as a file in a folder. As
//! a well-made other side it takes a key once: what was done is not done again, and what was undone stays undone.

use std::fs::{File, OpenOptions};
use std::io::Result;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Nothing,
    Done,
    Undone,
}

#[derive(Clone, Debug)]
pub struct Outside {
    folder: PathBuf,
}

impl Outside {
    /// Beside the ledgers of a database.
    pub fn beside(ledgers: &Path) -> Outside {
        Outside { folder: ledgers.join("outside") }
    }

    pub fn open(self) -> Result<Outside> {
        std::fs::create_dir_all(&self.folder)?;
        Ok(self)
    }

    fn path(&self, key: &str, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", key.replace(['/', ':'], "_")))
    }

    fn leave(&self, key: &str, what: &str) -> Result<()> {
        OpenOptions::new().create(true).append(true).open(self.path(key, what))?.sync_all()?;
        // The name of the file, too, is to outlast a crash.
        File::open(&self.folder)?.sync_all()
    }

    pub fn do_it(&self, key: &str) -> Result<()> {
        self.leave(key, "done")
    }

    pub fn undo(&self, key: &str) -> Result<()> {
        self.leave(key, "undone")
    }

    pub fn state(&self, key: &str) -> State {
        match (self.path(key, "done").exists(), self.path(key, "undone").exists()) {
            (_, true) => State::Undone,
            (true, false) => State::Done,
            (false, false) => State::Nothing,
        }
    }
}
