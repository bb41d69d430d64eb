//! Shares of a table of fixed size that all databases of a server use: one of them can fill its share, and no more.

/// Databases whose use is known. Those beyond share what is left to one.
const DATABASES: usize = 128;

/// How many places each database uses. All zero: nothing is used.
#[derive(Clone, Copy)]
pub struct Shares {
    databases: [u32; DATABASES],
    used: [u32; DATABASES],
    total: usize,
}

impl Default for Shares {
    fn default() -> Self {
        Shares { databases: [0; DATABASES], used: [0; DATABASES], total: 0 }
    }
}

impl Shares {
    fn place(&self, database: u32) -> usize {
        let known = self.databases.iter().position(|other| *other == database);
        let free = || self.used.iter().position(|used| *used == 0);
        known.or_else(free).unwrap_or(DATABASES - 1)
    }

    pub fn used(&self, database: u32) -> usize {
        let place = self.place(database);
        if self.databases[place] == database { self.used[place] as usize } else { 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// How many places a database may use: three quarters, divided by those that use any.
    pub fn of(&self, database: u32, all: usize) -> usize {
        let others =
            self.databases.iter().zip(&self.used).filter(|(other, used)| **used > 0 && **other != database).count();
        all * 3 / 4 / (others + 1)
    }

    /// Whether a database may use one more of all places. Some are always left, so that those who look for one find it.
    pub fn has_room(&self, database: u32, all: usize) -> bool {
        self.total < all - all / 16 && self.used(database) < self.of(database, all).max(1)
    }

    pub fn take(&mut self, database: u32) {
        let place = self.place(database);
        self.databases[place] = database;
        self.used[place] += 1;
        self.total += 1;
    }

    pub fn give_back(&mut self, database: u32) {
        let place = self.place(database);
        self.used[place] = self.used[place].saturating_sub(1);
        self.total = self.total.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_has_most_and_leaves_room_for_another() {
        let mut shares = Shares::default();
        let mut fill = |database: u32| {
            let mut got = 0;
            while shares.has_room(database, 1024) {
                shares.take(database);
                got += 1;
            }
            got
        };
        assert_eq!(fill(1), 768);
        assert_eq!(fill(2), 192, "down to the last sixteenth");
        assert_eq!(fill(3), 0);
        for _ in 0..500 {
            shares.give_back(1);
        }
        assert!(shares.has_room(1, 1024) && shares.has_room(2, 1024) && shares.has_room(3, 1024));
        assert_eq!((shares.used(1), shares.used(2), shares.used(3)), (268, 192, 0));
    }

    #[test]
    fn more_databases_than_are_known_still_count() {
        let mut shares = Shares::default();
        for database in 1..=200 {
            assert!(shares.has_room(database, 16_384));
            shares.take(database);
        }
        for database in 1..=200 {
            shares.give_back(database);
        }
        assert!(shares.is_empty());
    }
}
