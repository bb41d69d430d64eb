//! The baseline: ratios to the yardsticks that a change must not let fall. Ratios only, never times:
//! both sides of a ratio ran on the same machine a second apart.

use crate::Failure;
use crate::figures::{pinned_kept, pinned_to_best};
use crate::options::Options;
use crate::pinned;
use crate::results::Results;
use crate::systems::{AGENTQ, LIMIT, NAIVE, TEXTBOOK};
use crate::text::{Table, decimals};
use crate::workloads::{BATCH_CLAIM_ACK, BATCH_ENQUEUE, CLAIM_ACK, ENQUEUE, MIXED, Workload};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// By how much a ratio may fall before it counts: short rounds on a shared machine differ by half of
/// this.
const TOLERANCE: f64 = 0.40;

/// The workloads that are compared.
pub static WORKLOADS: [&Workload; 5] = [&ENQUEUE, &CLAIM_ACK, &BATCH_ENQUEUE, &BATCH_CLAIM_ACK, &MIXED];

/// How many times as fast agentq is as another system.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    pub workload: String,
    pub other: String,
    pub ratio: f64,
}

/// A ratio then and now.
struct Change {
    workload: String,
    other: String,
    then: Option<f64>,
    now: Option<f64>,
}

impl Change {
    /// A ratio that is no longer measured has fallen, too.
    fn has_fallen(&self) -> bool {
        match (self.then, self.now) {
            (Some(then), Some(now)) => now.is_nan() || now < then * (1.0 - TOLERANCE),
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

/// Compares the results with the baseline, or makes them the new one. Returns whether all is well.
pub fn check(results: &Results, options: &Options) -> Result<bool, Failure> {
    let now = ratios(results);
    let path = path();
    if let Some(file) = &options.save {
        std::fs::write(file, write(&now)?)?;
    }
    if options.bless {
        std::fs::write(&path, write(&now)?)?;
        println!("The baseline is now that of this run: {}.", path.display());
        return Ok(true);
    }
    let changes = compare(&stored()?, &now);
    println!("{}", table(&changes));
    let fallen = changes.iter().filter(|change| change.has_fallen()).count();
    if fallen > 0 {
        println!("{fallen} of {} ratios have fallen by more than {:.0}%.", changes.len(), TOLERANCE * 100.0);
    }
    Ok(fallen == 0)
}

/// The workloads that have fallen in comparison with any yardstick.
pub fn fallen(results: &Results) -> Result<Vec<&'static Workload>, Failure> {
    let changes = compare(&stored()?, &ratios(results));
    let has_fallen = |workload: &&Workload| changes.iter().any(|c| c.workload == workload.name && c.has_fallen());
    Ok(WORKLOADS.into_iter().filter(has_fallen).collect())
}

fn stored() -> Result<Vec<Ratio>, Failure> {
    let path = path();
    let text = std::fs::read_to_string(&path);
    read(&text.map_err(|error| format!("{}: {error}; --bless writes it", path.display()))?)
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.csv")
}

fn ratios(results: &Results) -> Vec<Ratio> {
    let mut found = Vec::new();
    let mut note = |workload: &str, other: &str, ratio: Option<f64>| {
        found.extend(ratio.map(|ratio| Ratio { workload: workload.to_owned(), other: other.to_owned(), ratio }));
    };
    for workload in WORKLOADS {
        for other in [NAIVE, TEXTBOOK, LIMIT] {
            note(workload.name, other, results.ratio(workload, other));
        }
    }
    // More than all of it is the warm-up's doing, and nothing to hold later runs to.
    let kept = pinned_kept(results, AGENTQ).map(|kept| kept.min(1.0));
    note(&format!("{}: kept", pinned::NAME), AGENTQ, kept);
    note(&format!("{}: last", pinned::NAME), TEXTBOOK, pinned_to_best(results, [TEXTBOOK].into_iter()));
    found
}

fn compare(then: &[Ratio], now: &[Ratio]) -> Vec<Change> {
    let find = |list: &[Ratio], like: &Ratio| {
        list.iter().find(|r| (&r.workload, &r.other) == (&like.workload, &like.other)).map(|r| r.ratio)
    };
    let new = now.iter().filter(|ratio| find(then, ratio).is_none());
    let change = |ratio: &Ratio| Change {
        workload: ratio.workload.clone(),
        other: ratio.other.clone(),
        then: find(then, ratio),
        now: find(now, ratio),
    };
    then.iter().chain(new).map(change).collect()
}

fn table(changes: &[Change]) -> Table {
    let mut table = Table::new(["ratio of agentq", "to", "baseline", "now", "change", ""]);
    for change in changes {
        let moved = change.then.zip(change.now).map(|(then, now)| format!("{:+.0}%", (now / then - 1.0) * 100.0));
        let verdict = match (change.then, change.now) {
            (None, _) => "new",
            (Some(_), None) => "NOT MEASURED",
            _ if change.has_fallen() => "FALLEN",
            _ => "ok",
        };
        let (then, now) = (decimals(change.then), decimals(change.now));
        table.row([&change.workload, &change.other, &then, &now, moved.as_deref().unwrap_or("-"), verdict]);
    }
    table
}

fn write(ratios: &[Ratio]) -> Result<String, Failure> {
    let mut text = String::from("workload,other,ratio\n");
    for ratio in ratios {
        writeln!(text, "\"{}\",{},{:.3}", ratio.workload, ratio.other, ratio.ratio)?;
    }
    Ok(text)
}

fn read(text: &str) -> Result<Vec<Ratio>, Failure> {
    let ratio = |line: &str| {
        let mut fields = line.rsplitn(3, ',');
        let (ratio, other, workload) = (fields.next()?, fields.next()?, fields.next()?);
        let workload = workload.trim_matches('"').to_owned();
        Some(Ratio { workload, other: other.to_owned(), ratio: ratio.parse().ok()? })
    };
    let lines = text.lines().skip(1).filter(|line| !line.is_empty());
    lines.map(|line| ratio(line).ok_or_else(|| format!("not a line of a baseline: {line}").into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(workload: &str, other: &str, ratio: f64) -> Ratio {
        Ratio { workload: workload.to_owned(), other: other.to_owned(), ratio }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let ratios = [ratio("enqueue, sync", "naive", 1.5), ratio("mixed", "textbook", 0.75)];
        assert_eq!(read(&write(&ratios).unwrap()).unwrap(), ratios);
        assert!(read("workload,other,ratio\nmixed,textbook\n").is_err());
    }

    #[test]
    fn only_a_fall_beyond_the_tolerance_or_a_gap_counts() {
        let then = [ratio("a", "x", 1.0), ratio("b", "x", 1.0), ratio("c", "x", 1.0), ratio("d", "x", 1.0)];
        let least = 1.0 - TOLERANCE;
        let now = [
            ratio("a", "x", least + 0.01),
            ratio("b", "x", least - 0.01),
            ratio("c", "x", 2.0),
            ratio("new", "x", 0.1),
        ];
        let fallen: Vec<bool> = compare(&then, &now).iter().map(Change::has_fallen).collect();
        assert_eq!(fallen, [false, true, false, true, false]);
    }
}
