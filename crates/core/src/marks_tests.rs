//! The marks against a plain model: inserts, claims, rollbacks and prepared transactions of several sessions in random
//! order must never leave a committed row before its mark, unless the lane is in doubt.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TAG: u64 = 42;
const DATABASE: u32 = 7;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Row {
    Uncommitted,
    Ready,
    /// Deleted by a claim that is still in flight, so that other scans skip it.
    Held,
    Gone,
}

#[derive(Clone, Debug)]
struct Insert {
    key: (i32, Position),
    began: i64,
    behind: bool,
}

#[derive(Clone, Debug)]
struct Scan {
    generation: u64,
    cap: i64,
    marks: Option<Vec<Mark>>,
    snapshot: BTreeMap<(i32, Position), Row>,
}

#[derive(Default)]
struct World {
    table: Marks<4>,
    rows: BTreeMap<(i32, Position), Row>,
    inserts: Vec<Insert>,
    scans: Vec<Scan>,
    claims: Vec<(i32, Position)>,
    /// Rows that prepared transactions have put in or taken out: no session remembers them.
    prepared: Vec<(i32, Position)>,
    now: i64,
    ids: u8,
}

impl World {
    fn cap(&self) -> i64 {
        let oldest = self.inserts.iter().map(|i| i.began).filter(|b| self.now - b <= LATE_US).min();
        oldest.unwrap_or(i64::MAX).min(self.now)
    }

    fn begin_insert(&mut self, priority: i32, back: i64) {
        self.ids = self.ids.wrapping_add(1);
        let mut id = [0; 16];
        id[0] = self.ids;
        let key = (priority, Position { at: self.now - back, id });
        self.rows.insert(key, Row::Uncommitted);
        self.inserts.push(Insert { key, began: self.now, behind: back > 0 });
    }

    fn commit_insert(&mut self, which: usize) {
        if self.inserts.is_empty() {
            return;
        }
        let insert = self.inserts.remove(which % self.inserts.len());
        self.rows.insert(insert.key, Row::Ready);
        let late = self.now - insert.began > LATE_US;
        if insert.behind || late || !self.table.covers(TAG, insert.key.0, insert.key.1) {
            self.table.lower(TAG, insert.key.0, insert.key.1);
        }
    }

    fn begin_scan(&mut self, full: bool) {
        let cap = self.cap();
        let known = self.table.find(TAG).filter(|l| !l.must_look(self.now));
        let known = known.and_then(|l| Some((l.generation(), l.marks()?.to_vec())));
        let (generation, marks) = match known {
            Some((generation, marks)) if !full => (generation, Some(marks)),
            _ => (self.table.begin_look(TAG, DATABASE, self.now), None),
        };
        self.scans.push(Scan { generation, cap, marks, snapshot: self.rows.clone() });
    }

    /// The second half of a scan: a full look learns, a claim takes the first row it can lock.
    fn end_scan(&mut self, which: usize) {
        if self.scans.is_empty() {
            return;
        }
        let scan = self.scans.remove(which % self.scans.len());
        let visible = |row: &Row| matches!(row, Row::Ready | Row::Held);
        let Some(marks) = scan.marks else {
            let mut found: Vec<Mark> = Vec::new();
            for ((priority, from), row) in &scan.snapshot {
                if visible(row) && found.last().is_none_or(|s| s.priority != *priority) {
                    found.push(Mark { priority: *priority, from: *from });
                }
            }
            self.table.learn(TAG, scan.generation, &found, scan.cap, 0);
            return;
        };
        for mark in marks {
            let first = scan.snapshot.iter().find(|((priority, at), row)| {
                *priority == mark.priority
                    && *at >= mark.from
                    && visible(row)
                    && self.rows[&(*priority, *at)] == Row::Ready
            });
            if let Some((key, _)) = first {
                let key = *key;
                self.rows.insert(key, Row::Held);
                self.claims.push(key);
                self.table.raise(TAG, scan.generation, key.0, key.1, scan.cap);
                return;
            }
            let end = Position::at(i64::MAX);
            self.table.raise(TAG, scan.generation, mark.priority, end, scan.cap);
        }
    }

    fn end_claim(&mut self, which: usize, commit: bool) {
        if self.claims.is_empty() {
            return;
        }
        let key = self.claims.remove(which % self.claims.len());
        self.rows.insert(key, if commit { Row::Gone } else { Row::Ready });
        if !commit {
            self.table.lower(TAG, key.0, key.1);
        }
    }

    /// An insert or a claim is prepared: what it took counts as put back, though others cannot take it yet.
    fn prepare(&mut self, which: usize, claim: bool) {
        if claim && !self.claims.is_empty() {
            let key = self.claims.remove(which % self.claims.len());
            self.table.lower(TAG, key.0, key.1);
            self.prepared.push(key);
        } else if !self.inserts.is_empty() {
            self.prepared.push(self.inserts.remove(which % self.inserts.len()).key);
        }
    }

    /// The insert is committed, or the claim rolled back.
    fn end_prepared(&mut self, which: usize) {
        if !self.prepared.is_empty() {
            let key = self.prepared.remove(which % self.prepared.len());
            self.rows.insert(key, Row::Ready);
            self.table.doubt(DATABASE);
        }
    }

    fn check(&self) {
        let Some(lane) = self.table.find(TAG).filter(|lane| !lane.must_look(self.now)) else { return };
        let Some(marks) = lane.marks() else { return };
        for ((priority, at), row) in &self.rows {
            if *row == Row::Ready {
                let mark = marks.iter().find(|mark| mark.priority == *priority);
                assert!(mark.is_some_and(|s| s.from <= *at), "row {priority} {at:?} lost: {marks:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_committed_row_is_ever_before_its_mark(
        steps in prop::collection::vec((0_u8..10, any::<u8>(), 0_i64..2_000_000), 1..120),
    ) {
        let mut world = World { now: 1_000_000_000, ..World::default() };
        for (step, pick, time) in steps {
            world.now += 1 + time / 10;
            let which = pick as usize;
            match step {
                0 => world.begin_insert(i32::from(pick % 3), 0),
                1 => world.begin_insert(i32::from(pick % 3), time),
                2 | 3 => world.commit_insert(which),
                4 => world.begin_scan(pick % 8 == 0),
                5 => world.end_scan(which),
                6 => world.end_claim(which, true),
                7 => world.prepare(which, pick % 2 == 0),
                8 => world.end_prepared(which),
                _ => world.end_claim(which, pick % 2 == 0),
            }
            world.check();
        }
    }
}

#[test]
fn a_lane_with_too_many_priorities_is_not_relied_on() {
    let mut table: Marks<4> = Marks::default();
    let generation = table.begin_look(TAG, DATABASE, 0);
    table.learn(TAG, generation, &[], 1, 0);
    for priority in 0..PRIORITIES as i32 {
        table.lower(TAG, priority, Position::at(5));
        assert!(table.find(TAG).unwrap().marks().is_some());
    }
    table.lower(TAG, 99, Position::at(5));
    assert!(table.find(TAG).unwrap().marks().is_none());
}

#[test]
fn slots_stay_in_order_of_priority() {
    let mut table: Marks<4> = Marks::default();
    let generation = table.begin_look(TAG, DATABASE, 0);
    table.learn(TAG, generation, &[], 1, 0);
    for priority in [50, 100, 0, 75] {
        table.lower(TAG, priority, Position::at(5));
    }
    let order: Vec<i32> = table.find(TAG).unwrap().marks().unwrap().iter().map(|s| s.priority).collect();
    assert_eq!(order, [0, 50, 75, 100]);
}

#[test]
fn a_full_table_gives_up_the_lane_looked_at_longest_ago() {
    let mut table: Marks<8> = Marks::default();
    for tag in 1..=9 {
        let generation = table.begin_look(tag, DATABASE, tag as i64);
        table.learn(tag, generation, &[], 0, 0);
    }
    assert!(table.find(1).is_none());
    assert!((2..=9).all(|tag| table.find(tag).is_some()));
}

#[test]
fn looks_take_a_bounded_share_of_the_time() {
    let mut table: Marks<4> = Marks::default();
    let generation = table.begin_look(TAG, DATABASE, 0);
    table.learn(TAG, generation, &[], 0, 500_000);
    let lane = table.find(TAG).unwrap();
    assert!(!lane.must_look(24_999_999) && lane.must_look(25_000_000));
}

#[test]
fn a_doubt_is_about_the_lanes_of_one_database_and_lasts_until_a_look_has_ended() {
    let mut table: Marks<8> = Marks::default();
    let (here, there) = (TAG, TAG + 1);
    for (tag, database) in [(here, DATABASE), (there, DATABASE + 1)] {
        let generation = table.begin_look(tag, database, 0);
        table.learn(tag, generation, &[], 0, 0);
    }
    let before = table.find(here).unwrap().generation();
    table.doubt(DATABASE);
    assert!(table.find(here).unwrap().must_look(1) && !table.find(there).unwrap().must_look(1));
    // A look that began before does not end it.
    table.learn(here, before, &[], 0, 0);
    assert!(table.find(here).unwrap().must_look(1));
    let generation = table.begin_look(here, DATABASE, 1);
    assert!(table.find(here).unwrap().must_look(1), "it may fail");
    table.learn(here, generation, &[], 0, 0);
    assert!(!table.find(here).unwrap().must_look(2));
}
