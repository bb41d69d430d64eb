//! Every single figure, one per line.

use crate::options::Options;
use crate::results::Results;
use crate::systems::AGENTQ;
use crate::{engine, fairness, latency, limits, missions, pinned, space, wal};
use std::collections::HashSet;
use std::fmt::{self, Write};

pub fn text(results: &Results, options: &Options) -> Result<String, fmt::Error> {
    let mut lines = Lines { text: String::from("workload,system,round,measure,value\n") };
    for trouble in &results.troubles {
        let line = trouble.lines().next().unwrap_or_default().replace('"', "'");
        lines.add(&line, "-", 0, "not measured", 0.0)?;
    }
    for speed in &results.speeds {
        let round = speed.round + 1;
        lines.add(speed.workload, &speed.system, round, "jobs_per_second", speed.jobs_per_second)?;
        lines.add(speed.workload, &speed.system, round, "cpu_us_per_job", speed.cpu_per_job * 1e6)?;
    }
    for system in results.systems.iter().map(|system| &system.name) {
        for (round, pinned) in results.pinned(system).enumerate() {
            for (number, speed) in (1..).zip(&pinned.windows) {
                let measure = format!("jobs_per_second_until_{}s", number * options.window);
                lines.add(pinned::NAME, system, round + 1, &measure, *speed)?;
            }
            lines.add(pinned::NAME, system, round + 1, "kept", pinned.kept())?;
        }
    }
    for (system, wal) in &results.wal {
        lines.add(wal::NAME, system, 1, "bytes_after_checkpoint", wal.after_checkpoint)?;
        lines.add(wal::NAME, system, 1, "bytes_between_checkpoints", wal.between_checkpoints)?;
    }
    for point in &results.growth.points {
        let workload = format!("growth: {} {}", point.size, point.curve);
        lines.add(&workload, &point.system, point.round + 1, point.measure.name(), point.value)?;
    }
    for found in &results.latency {
        let workload = format!("{} at {}%", latency::NAME, found.share);
        let figures = [
            ("wanted_per_second", found.wanted),
            ("reached_per_second", found.reached),
            ("p50_ms", found.p50),
            ("p95_ms", found.p95),
            ("p99_ms", found.p99),
        ];
        for (measure, value) in figures {
            lines.add(&workload, &found.system, found.round + 1, measure, value)?;
        }
    }
    if let Some(space) = &results.space {
        for (seconds, bytes) in &space.samples {
            lines.add(space::NAME, AGENTQ, 1, &format!("bytes_after_{seconds:.0}s"), *bytes)?;
        }
        lines.add(space::NAME, AGENTQ, 1, "bytes_at_last", space.last)?;
        lines.add(space::NAME, AGENTQ, 1, "bytes_at_least", space.least)?;
    }
    if let Some(found) = &results.limits {
        lines.add(limits::NAME, AGENTQ, 1, "global_limit_ratio", found.global)?;
        lines.add(limits::NAME, AGENTQ, 1, "tenant_limit_ratio", found.tenants)?;
    }
    if let Some(found) = &results.fairness {
        lines.add(fairness::NAME, AGENTQ, 1, "begun_until_small_are_through", found.begun)?;
        lines.add(fairness::NAME, AGENTQ, 1, "small_are_through_ms", found.drained_ms)?;
        lines.add(fairness::NAME, AGENTQ, 1, "small_are_through_without_turns_ms", found.without_ms)?;
        lines.add(fairness::NAME, AGENTQ, 1, "speed_ratio", found.speed)?;
    }
    if let Some(found) = &results.missions {
        lines.add(missions::NAME, AGENTQ, 1, "plain_job_us", found.plain_us)?;
        for (size, us, ratio) in &found.sizes {
            lines.add(missions::NAME, AGENTQ, 1, &format!("step_of_{size}_us"), *us)?;
            lines.add(missions::NAME, AGENTQ, 1, &format!("step_of_{size}_ratio"), *ratio)?;
        }
        lines.add(missions::NAME, AGENTQ, 1, "step_of_fan_us", found.fan.0)?;
        lines.add(missions::NAME, AGENTQ, 1, "step_of_fan_ratio", found.fan.1)?;
    }
    if let Some(found) = &results.engine {
        let figures = [
            ("wake_median_ms", found.wake_median),
            ("wake_p99_ms", found.wake_p99),
            ("idle_cpu", found.idle_cpu),
            ("waiting_cpu", found.waiting_cpu),
            ("idle_wal_bytes_per_minute", found.idle_wal),
            ("notify_on_to_off", found.notify),
        ];
        for (measure, value) in figures {
            lines.add(engine::NAME, AGENTQ, 1, measure, value)?;
        }
    }
    Ok(lines.text)
}

/// Puts new figures beside those of before: what was measured anew replaces what has the same name.
pub fn beside(before: &str, new: &str) -> String {
    let name = |line: &str| line.split("\",").next().unwrap_or_default().to_owned();
    let measured: HashSet<String> = new.lines().map(name).collect();
    let kept = before.lines().skip(1).filter(|line| !measured.contains(&name(line)));
    new.lines().chain(kept).map(|line| format!("{line}\n")).collect()
}

struct Lines {
    text: String,
}

impl Lines {
    fn add(&mut self, workload: &str, system: &str, round: usize, measure: &str, value: f64) -> fmt::Result {
        writeln!(self.text, "\"{workload}\",{system},{round},\"{measure}\",{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_replaces_its_own_figures_and_keeps_the_others() {
        let before = "workload,system,round,measure,value\n\"a\",x,1,\"m\",1\n\"b\",x,1,\"m\",2\n";
        let new = "workload,system,round,measure,value\n\"b\",y,1,\"m\",3\n";
        let both = "workload,system,round,measure,value\n\"b\",y,1,\"m\",3\n\"a\",x,1,\"m\",1\n";
        assert_eq!(beside(before, new), both);
        assert_eq!(beside("", new), new);
    }
}
