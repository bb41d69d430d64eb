//! A panel for each line, as SVG on white: the jobs that have passed, and what was sampled.

use super::sample::Sample;
use super::{LINES, Line};
use crate::Failure;
use plotters::prelude::*;
use std::path::Path;

const COLUMNS: usize = 3;
const PANEL: (u32, u32) = (390, 230);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const RULE: RGBColor = RGBColor(225, 225, 225);
const BLUE: RGBColor = RGBColor(31, 90, 200);

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

pub fn draw(samples: &[Sample], path: &Path) -> Result<(), Failure> {
    let rows = LINES.len().div_ceil(COLUMNS);
    let size = (PANEL.0 * COLUMNS as u32, PANEL.1 * rows as u32 + 30);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let area =
        area.titled("An hour's worth of jobs: what grows, and what does not", (FONT, 20).into_font().color(&INK))?;
    for (line, panel) in LINES.iter().zip(area.split_evenly((rows, COLUMNS))) {
        draw_line(line, samples, &panel)?;
    }
    Ok(area.present()?)
}

fn draw_line(line: &Line, samples: &[Sample], panel: &Area) -> Result<(), Failure> {
    let values = line.values(samples);
    let most = |of: fn(&(f64, f64)) -> f64| values.iter().map(of).fold(0.0, f64::max).max(1e-9);
    let (end, top) = (most(|point| point.0), most(|point| point.1) * 1.3);
    let unit = if line.unit.is_empty() { String::new() } else { format!(", {}", line.unit) };
    let mut chart = ChartBuilder::on(panel)
        .caption(format!("{}{unit}", line.name), (FONT, 15).into_font().color(&INK))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(4)
        .y_labels(5)
        .light_line_style(WHITE)
        .bold_line_style(RULE)
        .x_label_formatter(&|x| format!("{:.0}k", x / 1000.0))
        .y_label_formatter(&|y| if *y < 10.0 { format!("{y:.1}") } else { format!("{y:.0}") })
        .label_style((FONT, 13).into_font().color(&INK))
        .draw()?;
    chart.draw_series(LineSeries::new(values, BLUE.stroke_width(2)))?;
    Ok(())
}
