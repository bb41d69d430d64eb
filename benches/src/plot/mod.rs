//! The plots, as SVG on white, one file each. A plot whose figures were not measured is not drawn.

mod growth;
mod latency;
mod pinned;
mod throughput;

use crate::Failure;
use crate::options::Options;
use crate::results::Results;
use crate::systems::{AGENTQ, LIMIT, NAIVE, TEXTBOOK};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::{Path, PathBuf};

const FONT: &str = "sans-serif";
const TEXT: i32 = 15;
const TITLE: i32 = 20;
const INK: RGBColor = RGBColor(40, 40, 40);
/// Pixels of the column with the names.
const LEGEND: u32 = 190;
const RULE: RGBColor = RGBColor(225, 225, 225);

/// Draws what there is. `file` says where a plot of a name goes.
pub fn draw(results: &Results, options: &Options, file: &dyn Fn(&str) -> PathBuf) -> Result<(), Failure> {
    if !results.speeds.is_empty() {
        throughput::draw(results, &file("throughput.svg"))?;
    }
    if !results.pinned.is_empty() {
        pinned::draw(results, options.window, &file("pinned.svg"))?;
    }
    if !results.growth.points.is_empty() {
        growth::draw(results, &file("growth.svg"))?;
    }
    if !results.latency.is_empty() {
        latency::draw(results, &file("latency.svg"))?;
    }
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// A white sheet with a title.
fn sheet<'a>(path: &'a Path, size: (u32, u32), title: &str) -> Result<Area<'a>, Failure> {
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    Ok(area.titled(title, (FONT, TITLE).into_font().color(&INK))?)
}

/// The colour of a system, the same in every plot.
fn color(results: &Results, system: &str) -> RGBColor {
    const PEERS: [RGBColor; 8] = [
        RGBColor(221, 132, 82),
        RGBColor(85, 168, 104),
        RGBColor(129, 114, 179),
        RGBColor(196, 78, 82),
        RGBColor(204, 185, 116),
        RGBColor(100, 181, 205),
        RGBColor(218, 139, 195),
        RGBColor(147, 120, 96),
    ];
    match system {
        AGENTQ => RGBColor(31, 90, 200),
        NAIVE => RGBColor(190, 190, 190),
        TEXTBOOK => RGBColor(120, 120, 120),
        LIMIT => RGBColor(50, 50, 50),
        peer => {
            let place = results.systems.iter().position(|system| system.is(peer)).unwrap_or_default();
            PEERS[place % PEERS.len()]
        }
    }
}

/// A sheet in two: the room for the chart, and a column beside it that says which colour is what.
fn with_legend<'a, 'n>(
    sheet: &Area<'a>,
    entries: impl Iterator<Item = (&'n str, RGBColor)>,
) -> Result<Area<'a>, Failure> {
    let width = sheet.dim_in_pixel().0.saturating_sub(LEGEND);
    let (chart, column) = sheet.split_horizontally(width);
    let words = (FONT, TEXT).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    for (number, (name, shade)) in (0..).zip(entries) {
        let y = 30 + 22 * number;
        column.draw(&Rectangle::new([(0, y - 6), (14, y + 6)], shade.filled()))?;
        column.draw(&Text::new(name, (22, y), words.clone()))?;
    }
    Ok(chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_a_plot_is_escaped() {
        let path = std::env::temp_dir().join(format!("agentq-plot-{}.svg", std::process::id()));
        sheet(&path, (300, 100), "a < b & c").unwrap().present().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.contains("a &lt; b &amp; c"), "{text}");
    }
}
