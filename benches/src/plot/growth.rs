//! Small multiples: a panel for each growth curve, every level as a multiple of the first.

use super::{Area, FONT, INK, RULE, color, sheet};
use crate::Failure;
use crate::growth::{Measure, Summary};
use crate::results::Results;
use crate::text::size;
use plotters::prelude::*;
use std::path::Path;

const COLUMNS: usize = 3;
const PANEL: (u32, u32) = (390, 250);
const TEXT: i32 = 13;

pub fn draw(results: &Results, path: &Path) -> Result<(), Failure> {
    let mut curves: Vec<&str> = Vec::new();
    for point in &results.growth.points {
        if !curves.contains(&point.curve) {
            curves.push(point.curve);
        }
    }
    let rows = curves.len().div_ceil(COLUMNS);
    let whole = (PANEL.0 * COLUMNS as u32, PANEL.1 * rows as u32 + 30);
    let area = sheet(path, whole, "What grows, and what that does: everything as a multiple of the first level")?;
    for (curve, panel) in curves.into_iter().zip(area.split_evenly((rows, COLUMNS))) {
        draw_panel(results, curve, &panel)?;
    }
    area.present()?;
    Ok(())
}

struct Line<'a> {
    system: &'a str,
    measure: Measure,
    levels: Vec<Summary>,
}

fn lines<'a>(results: &'a Results, curve: &str) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for system in results.systems.iter().map(|system| system.name.as_str()) {
        for measure in Measure::ALL {
            let levels = results.growth.levels(curve, system, measure);
            if !levels.is_empty() {
                lines.push(Line { system, measure, levels });
            }
        }
    }
    lines
}

fn draw_panel(results: &Results, curve: &str, panel: &Area) -> Result<(), Failure> {
    let lines = lines(results, curve);
    let Some(longest) = lines.iter().max_by_key(|line| line.levels.len()) else { return Ok(()) };
    let labels: Vec<String> = longest.levels.iter().map(|level| size(level.size)).collect();
    let top = lines.iter().flat_map(|line| &line.levels).map(|level| level.ratio).fold(1.5, f64::max);
    // Room for the names above the lines.
    let top = top * (1.1 + 0.12 * lines.len() as f64);
    let mut chart = ChartBuilder::on(panel)
        .caption(curve, (FONT, 15).into_font().color(&INK))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(38)
        .build_cartesian_2d(-0.2..labels.len() as f64 - 0.8, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(labels.len() * 2)
        .y_labels(5)
        .light_line_style(WHITE)
        .bold_line_style(RULE)
        .x_label_formatter(&|x| label_at(&labels, *x))
        .y_label_formatter(&|y| format!("{y:.1}"))
        .label_style((FONT, TEXT).into_font().color(&INK))
        .draw()?;
    for line in lines {
        let points = || (0..).map(f64::from).zip(line.levels.iter().map(|level| level.ratio));
        let shade = color(results, line.system);
        let is_time = line.measure == Measure::ClaimTime || line.measure == Measure::ClaimsAndAcks;
        let style = if is_time { shade.stroke_width(2) } else { shade.mix(0.45).stroke_width(2) };
        chart
            .draw_series(LineSeries::new(points(), style))?
            .label(format!("{}: {}", line.system, name(line.measure)))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
        chart.draw_series(points().map(|point| Circle::new(point, 3, style.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, TEXT - 1).into_font().color(&INK))
        .draw()?;
    Ok(())
}

/// Levels are one apart whatever their sizes, and only they have a label.
fn label_at(labels: &[String], x: f64) -> String {
    let nearest = x.round();
    let is_level = (x - nearest).abs() < 0.01 && nearest >= 0.0;
    labels.get(nearest as usize).filter(|_| is_level).cloned().unwrap_or_default()
}

fn name(measure: Measure) -> &'static str {
    match measure {
        Measure::ClaimTime => "time of a claim",
        Measure::Lives => "throughput",
        Measure::Enqueues => "enqueues/s",
        Measure::ClaimsAndAcks => "claim+acks/s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_levels_have_labels() {
        let labels = ["0".to_owned(), "1k".to_owned()];
        assert_eq!(label_at(&labels, 1.0), "1k");
        assert_eq!(label_at(&labels, 0.5), "");
        assert_eq!(label_at(&labels, -1.0), "");
        assert_eq!(label_at(&labels, 2.0), "");
    }
}
