//! The CPU that the server takes, by the kernel's account.

#![allow(unsafe_code, reason = "asking for the length of a tick")]

use crate::Failure;
use crate::cluster::Cluster;
use std::fs;
use std::time::Duration;

/// CPUs that the whole server takes while nothing else is asked of it.
pub fn taken_during(cluster: &Cluster, time: Duration) -> Result<f64, Failure> {
    let before = of_all(cluster)?;
    std::thread::sleep(time);
    Ok((of_all(cluster)? - before) / time.as_secs_f64())
}

/// Seconds of CPU of the server's processes.
fn of_all(cluster: &Cluster) -> Result<f64, Failure> {
    let server = cluster.pid()?.to_string();
    let mut ticks = 0.0;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some(fields) = Fields::read(&stat) else { continue };
        if entry.file_name().to_string_lossy() == server || fields.text(PARENT) == Some(server.as_str()) {
            ticks += fields.sum(OWN_TIMES);
        }
    }
    Ok(ticks / ticks_per_second())
}

/// Seconds of CPU that the sessions which have ended took, once all of the last ones have.
pub fn of_ended_sessions(cluster: &Cluster) -> Result<f64, Failure> {
    std::thread::sleep(Duration::from_millis(60));
    let stat = fs::read_to_string(format!("/proc/{}/stat", cluster.pid()?))?;
    let fields = Fields::read(&stat).ok_or("an odd /proc/<pid>/stat")?;
    Ok(fields.sum(CHILDRENS_TIMES) / ticks_per_second())
}

/// Places in /proc/<pid>/stat, counted from what follows the name in brackets: in user and in system
/// mode.
const PARENT: usize = 1;
const OWN_TIMES: [usize; 2] = [11, 12];
const CHILDRENS_TIMES: [usize; 2] = [13, 14];

struct Fields<'a>(Vec<&'a str>);

impl<'a> Fields<'a> {
    fn read(stat: &'a str) -> Option<Fields<'a>> {
        Some(Fields(stat.rsplit_once(") ")?.1.split(' ').collect()))
    }

    fn text(&self, place: usize) -> Option<&'a str> {
        self.0.get(place).copied()
    }

    fn sum(&self, places: [usize; 2]) -> f64 {
        places.iter().filter_map(|place| self.text(*place)?.parse::<f64>().ok()).sum()
    }
}

fn ticks_per_second() -> f64 {
    // SAFETY: sysconf only reads.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_and_blanks_do_not_shift_the_fields() {
        let stat = "7 (a (b) c) S 42 7 7 0 -1 4194560 1 2 3 4 10 20 300 400 20 0";
        let fields = Fields::read(stat).unwrap();
        assert_eq!(fields.text(PARENT), Some("42"));
        assert_eq!(fields.sum(OWN_TIMES), 30.0);
        assert_eq!(fields.sum(CHILDRENS_TIMES), 700.0);
    }
}
