//! Lines: milliseconds from commit to claim against the load, at the median and 99 times in 100.

use super::{FONT, INK, RULE, TEXT, color, sheet, with_legend};
use crate::Failure;
use crate::latency::Latency;
use crate::results::Results;
use crate::stats::median;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (900, 460);
/// Milliseconds below which differences say nothing.
const LEAST: f64 = 0.05;

pub fn draw(results: &Results, path: &Path) -> Result<(), Failure> {
    let shares =
        |pick: fn(f64, f64) -> f64, start| results.latency.iter().map(|l| f64::from(l.share)).fold(start, pick);
    let (low, high) = (shares(f64::min, 100.0) - 5.0, shares(f64::max, 0.0) + 5.0);
    let top = results.latency.iter().map(|found| found.p99).fold(1.0, f64::max) * 2.0;
    let area = sheet(path, SIZE, "Commit to claim at a fixed arrival rate: p50 (line) and p99 (dashed)")?;
    let mut names: Vec<&str> = results.systems.iter().map(|system| system.name.as_str()).collect();
    names.retain(|name| results.latency.iter().any(|found| found.system == *name));
    let chart_area = with_legend(&area, names.iter().map(|name| (*name, color(results, name))))?;
    let mut chart = ChartBuilder::on(&chart_area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(low..high, (LEAST..top).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RULE)
        .x_desc("load, % of the system's own capacity")
        .y_desc("milliseconds")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| if *y < 1.0 { format!("{y:.2}") } else { format!("{y:.0}") })
        .label_style((FONT, TEXT).into_font().color(&INK))
        .draw()?;
    for system in names {
        let style = color(results, system).stroke_width(2);
        let half = line(results, system, |found| found.p50);
        let most = line(results, system, |found| found.p99);
        chart.draw_series(half.iter().chain(&most).map(|point| Circle::new(*point, 3, style.filled())))?;
        chart.draw_series(LineSeries::new(half, style))?;
        chart.draw_series(DashedLineSeries::new(most, 6, 4, style))?;
    }
    area.present()?;
    Ok(())
}

/// The middle of the rounds at each share of the capacity.
fn line(results: &Results, system: &str, figure: fn(&Latency) -> f64) -> Vec<(f64, f64)> {
    let of_system = || results.latency.iter().filter(|found| found.system == system);
    let mut shares: Vec<u32> = of_system().map(|found| found.share).collect();
    shares.sort_unstable();
    shares.dedup();
    let at = |share: u32| median(of_system().filter(|found| found.share == share).map(figure));
    shares.into_iter().filter_map(|share| Some((f64::from(share), at(share)?.max(LEAST)))).collect()
}
