//! Bars: each workload a group, each system a bar, all relative to agentq.

use super::{FONT, INK, RULE, TEXT, color, sheet, with_legend};
use crate::Failure;
use crate::results::Results;
use crate::systems::AGENTQ;
use crate::workloads::{self, Workload};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const SIZE: (u32, u32) = (1280, 520);
/// Where the plot ends above, at most.
const HIGHEST: f64 = 3.0;
/// agentq with the call that acks one job and claims the next.
const ONE_CALL: &str = "agentq, ack-and-claim";
/// The part of a group's room that its bars take.
const FILLED: f64 = 0.86;

pub fn draw(results: &Results, path: &Path) -> Result<(), Failure> {
    let groups: Vec<(&Workload, Vec<Bar>)> =
        groups(results).map(|workload| (workload, bars(results, workload))).collect();
    let top = groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.height).fold(1.1, f64::max).min(HIGHEST) * 1.05;
    let widest = groups.iter().map(|(_, bars)| bars.len()).max().unwrap_or(1);
    let area = sheet(path, SIZE, "Throughput, as a multiple of agentq's: higher is faster")?;
    let names = results.systems.iter().map(|system| system.name.as_str()).chain([ONE_CALL]);
    let chart_area = with_legend(&area, names.map(|name| (name, bar_color(results, name))))?;
    let mut chart = ChartBuilder::on(&chart_area)
        .margin(12)
        .x_label_area_size(60)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .light_line_style(WHITE)
        .bold_line_style(RULE)
        .y_desc("× agentq")
        .y_label_formatter(&|y| format!("{y:.1}"))
        .label_style((FONT, TEXT).into_font().color(&INK))
        .draw()?;
    chart.draw_series(LineSeries::new([(0.0, 1.0), (groups.len() as f64, 1.0)], INK.mix(0.5)))?;
    let width = FILLED / widest as f64;
    for (place, (workload, bars)) in groups.iter().enumerate() {
        let start = place as f64 + (1.0 - width * bars.len() as f64) / 2.0;
        let shape = |(number, bar): (usize, &Bar)| {
            let left = start + width * number as f64;
            let corners = [(left, 0.0), (left + width * 0.9, bar.height.min(top))];
            Rectangle::new(corners, bar_color(results, bar.name).filled())
        };
        chart.draw_series(bars.iter().enumerate().map(shape))?;
        let (x, y) = chart.backend_coord(&(place as f64 + 0.5, 0.0));
        let origin = chart_area.get_base_pixel();
        let centered = (FONT, TEXT).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
        for (line, words) in (0..).zip([workload.name.to_owned(), format!("{} clients", workload.clients)]) {
            let at = (x - origin.0, y - origin.1 + 8 + 18 * line);
            chart_area.draw(&Text::new(words, at, centered.clone()))?;
        }
    }
    area.present()?;
    Ok(())
}

struct Bar<'a> {
    name: &'a str,
    height: f64,
}

/// The workloads that all queues can do.
fn groups(results: &Results) -> impl Iterator<Item = &'static Workload> {
    let measured = |workload: &&Workload| !results.speeds(workload, AGENTQ).is_empty();
    workloads::ALL.into_iter().filter(|workload| workload.otherwise.is_none()).filter(measured)
}

/// The bars of a workload: the systems, and agentq with the call that does the same at once.
fn bars<'a>(results: &'a Results, workload: &Workload) -> Vec<Bar<'a>> {
    let one_call = workloads::ALL.into_iter().find(|other| other.otherwise.is_some_and(|o| o.name == workload.name));
    let one_call = one_call.and_then(|other| results.gain(other)).map(|height| Bar { name: ONE_CALL, height });
    let bar = |name: &'a str| Some(Bar { name, height: 1.0 / results.ratio(workload, name)? });
    results.systems.iter().filter_map(|system| bar(&system.name)).chain(one_call).collect()
}

fn bar_color(results: &Results, name: &str) -> RGBColor {
    if name == ONE_CALL { RGBColor(120, 170, 255) } else { color(results, name) }
}
