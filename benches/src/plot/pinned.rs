//! Lines: what is left of each system's speed while a snapshot is pinned.

use super::{FONT, INK, RULE, TEXT, color, sheet, with_legend};
use crate::Failure;
use crate::results::Results;
use crate::stats::median;
use crate::systems::AGENTQ;
use crate::text::whole;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (900, 460);

pub fn draw(results: &Results, window: u32, path: &Path) -> Result<(), Failure> {
    let lines: Vec<(&str, Vec<(f64, f64)>)> = results
        .systems
        .iter()
        .map(|system| (system.name.as_str(), line(results, &system.name, window)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let all = || lines.iter().flat_map(|(_, points)| points);
    let end = all().map(|point| point.0).fold(0.0, f64::max);
    let top = all().map(|point| point.1).fold(0.0, f64::max) * 1.1;
    let area = sheet(path, SIZE, "Mixed workload under a pinned snapshot, 8 clients")?;
    let chart_area = with_legend(&area, lines.iter().map(|(name, _)| (*name, color(results, name))))?;
    let mut chart = ChartBuilder::on(&chart_area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RULE)
        .x_desc("seconds since the snapshot was taken")
        .y_desc("jobs/s")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| whole(Some(*y)))
        .label_style((FONT, TEXT).into_font().color(&INK))
        .draw()?;
    for (name, points) in lines {
        let style = color(results, name).stroke_width(if name == AGENTQ { 3 } else { 2 });
        chart.draw_series(LineSeries::new(points, style))?;
    }
    area.present()?;
    Ok(())
}

/// The middle of the rounds in each window, at the window's middle.
fn line(results: &Results, system: &str, window: u32) -> Vec<(f64, f64)> {
    let windows = results.pinned(system).map(|pinned| pinned.windows.len()).min().unwrap_or_default();
    let speed = |number: usize| median(results.pinned(system).map(|pinned| pinned.windows[number]));
    let at = |number: usize| (number as f64 + 0.5) * f64::from(window);
    (0..windows).filter_map(|number| Some((at(number), speed(number)?))).collect()
}
