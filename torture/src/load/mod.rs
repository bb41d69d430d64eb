//! The load: producers, workers and meddlers, each a process of its own with a ledger of its own, so that any of them can be
//! killed at any instant. They go on through lost connections, and end when their standard input is closed.

pub mod client;
pub mod fleet;
pub mod meddler;
pub mod producer;
pub mod trip;
pub mod worker;

use crate::dice::Dice;
use client::Client;

/// What a process of the load is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Producer,
    Worker,
    Meddler,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Producer, Role::Worker, Role::Meddler];

    pub fn name(self) -> &'static str {
        match self {
            Role::Producer => "producer",
            Role::Worker => "worker",
            Role::Meddler => "meddler",
        }
    }
}

/// How it goes about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Uses only what the first released version has: one job, one claim, one ack.
    pub plainly: bool,
    /// Ends every job well, and makes no mischief.
    pub dutifully: bool,
    /// Lets some of its statements run into a time-out.
    pub hastily: bool,
    /// Meddlers lock two jobs in opposite orders.
    pub crosswise: bool,
    /// The server may forget what it has confirmed.
    pub forgiving: bool,
}

impl Manner {
    const WORDS: [&'static str; 5] = ["plainly", "dutifully", "hastily", "crosswise", "forgiving"];

    fn fields(&mut self) -> [&mut bool; 5] {
        [&mut self.plainly, &mut self.dutifully, &mut self.hastily, &mut self.crosswise, &mut self.forgiving]
    }

    /// As an argument of the process: the words that hold.
    pub fn to_words(&self) -> String {
        let mut copy = self.clone();
        let fields = copy.fields();
        let words: Vec<&str> = Self::WORDS.iter().zip(fields).filter(|(_, is)| **is).map(|(word, _)| *word).collect();
        words.join(",")
    }

    pub fn from_words(words: &str) -> Manner {
        let mut manner = Manner::default();
        for (word, field) in Self::WORDS.iter().zip(manner.fields()) {
            *field = words.split(',').any(|given| given == *word);
        }
        manner
    }
}

pub fn run(role: Role, mut client: Client, dice: Dice, manner: &Manner) {
    if manner.forgiving {
        // A job that was forgotten with its claim.
        client.own_fault = &["P0002"];
    }
    match role {
        Role::Producer => producer::Producer::new(client, dice, manner).run(),
        Role::Worker => worker::Worker::new(client, dice, manner).run(),
        Role::Meddler => meddler::Meddler::new(client, dice, manner).run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manner_survives_its_words() {
        let manner = Manner { dutifully: true, crosswise: true, ..Manner::default() };
        assert_eq!(manner.to_words(), "dutifully,crosswise");
        assert_eq!(Manner::from_words(&manner.to_words()), manner);
        assert_eq!(Manner::from_words(""), Manner::default());
    }
}
