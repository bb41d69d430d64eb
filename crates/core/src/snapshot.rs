//! Which transactions had committed at a moment, as the server tells it: `xmin:xmax:in progress`.
//!
//! Two snapshots say which transactions have ended in between: those that the older one shows as in progress or not
//! begun, and the newer one as neither. However long one of them stays open, it holds nothing else up.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub xmin: u64,
    pub xmax: u64,
    pub in_progress: Vec<u64>,
}

impl Snapshot {
    /// None: it is not one.
    pub fn read(text: &str) -> Option<Snapshot> {
        let mut parts = text.split(':');
        let (xmin, xmax) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let list = parts.next()?;
        let numbers = list.split(',').filter(|number| !number.is_empty()).map(|number| number.parse().ok());
        Some(Snapshot { xmin, xmax, in_progress: numbers.collect::<Option<_>>()? })
    }

    /// This snapshot with a transaction in progress: the server does not count the one that asks among those, though it
    /// is.
    pub fn without(mut self, xid: u64) -> Snapshot {
        if self.sees(xid) {
            self.in_progress.push(xid);
            self.in_progress.sort_unstable();
            self.xmin = self.xmin.min(xid);
        }
        self
    }

    /// Whether a transaction had ended.
    pub fn sees(&self, xid: u64) -> bool {
        xid < self.xmin || (xid < self.xmax && !self.in_progress.contains(&xid))
    }

    /// Those that had begun by `older`, and have ended between it and this.
    pub fn ended_since(&self, older: &Snapshot) -> Vec<u64> {
        let mut ended: Vec<u64> = older.in_progress.iter().copied().filter(|xid| self.sees(*xid)).collect();
        ended.sort_unstable();
        ended
    }
}

impl std::fmt::Display for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list: Vec<String> = self.in_progress.iter().map(u64::to_string).collect();
        write!(f, "{}:{}:{}", self.xmin, self.xmax, list.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::read(text).unwrap()
    }

    #[test]
    fn it_is_read_as_the_server_writes_it() {
        let read = snapshot("10:20:10,14");
        assert_eq!(read, Snapshot { xmin: 10, xmax: 20, in_progress: vec![10, 14] });
        let seen: Vec<u64> = (8..22).filter(|xid| read.sees(*xid)).collect();
        assert_eq!(seen, [8, 9, 11, 12, 13, 15, 16, 17, 18, 19]);
        assert_eq!(snapshot("7:7:").in_progress, Vec::<u64>::new());
        for wrong in ["", "1", "1:2", "a:2:", "1:2:x"] {
            assert_eq!(Snapshot::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn whoever_asks_has_not_ended() {
        let asked = snapshot("10:20:14").without(12);
        assert_eq!(asked.to_string(), "10:20:12,14");
        assert!(!asked.sees(12) && asked.sees(13));
        assert_eq!(snapshot("20:20:").without(15).to_string(), "15:20:15");
        assert_eq!(snapshot("20:20:").without(20).to_string(), "20:20:");
        assert_eq!(snapshot("10:20:14").without(14).to_string(), "10:20:14");
    }

    proptest! {
        /// Steps of random transactions: begin, or end one of those in progress.
        #[test]
        fn from_one_snapshot_to_the_next_every_transaction_ends_exactly_once(
            steps in prop::collection::vec((any::<bool>(), 0_usize..8, any::<bool>()), 1..200)
        ) {
            let (mut next, mut open, mut seen) = (3_u64, Vec::new(), Vec::new());
            let mut last = snapshot("3:3:");
            for (begins, which, look) in steps {
                if begins || open.is_empty() {
                    open.push(next);
                    next += 1;
                } else {
                    open.remove(which % open.len());
                }
                if look {
                    let xmin = open.iter().copied().min().unwrap_or(next);
                    let now = Snapshot { xmin, xmax: next, in_progress: open.clone() };
                    seen.extend(now.ended_since(&last));
                    seen.extend((last.xmax..now.xmax).filter(|xid| now.sees(*xid)));
                    last = now;
                }
            }
            let mut expected: Vec<u64> = (3..last.xmax).filter(|xid| last.sees(*xid)).collect();
            seen.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(seen, expected);
        }
    }
}
