//! What a run says at its end: tables, the figures to reach, a CSV and plots.

mod csv;
mod curves;
mod speeds;

use crate::options::{Form, Options};
use crate::results::Results;
use crate::text::Table;
use crate::{Failure, baseline, figures, plot};
use std::path::Path;

/// Prints and writes everything. Returns whether all is as it has to be.
pub fn publish(results: &Results, options: &Options) -> Result<bool, Failure> {
    println!("\n{}\n", about(results, options));
    for table in speeds::tables(results).into_iter().chain(curves::tables(results, options)) {
        println!("{table}");
    }
    for trouble in &results.troubles {
        println!("TROUBLE: {trouble}");
    }
    let well = if options.form == Form::Ci {
        baseline::check(results, options)?
    } else {
        write(results, options)?;
        check_figures(results, options)
    };
    Ok(well && results.troubles.is_empty())
}

/// The conditions of the run, in one paragraph.
fn about(results: &Results, options: &Options) -> String {
    let mut text = format!(
        "PostgreSQL {}, {} CPUs; rounds: {} of {} s, pinned snapshot {} s.",
        results.server,
        std::thread::available_parallelism().map_or(0, usize::from),
        options.rounds,
        options.seconds,
        options.pinned_seconds
    );
    let versions: Vec<&str> = results.systems.iter().map(|s| s.version.as_str()).filter(|v| !v.is_empty()).collect();
    if !versions.is_empty() {
        text += &format!(" Peers: {}.", versions.join(", "));
    }
    text
}

/// Prints what was to be reached and returns whether it was.
fn check_figures(results: &Results, options: &Options) -> bool {
    let figures = figures::all(results, options);
    let mut table = Table::new(["figure", "goal", "reached", ""]);
    // A run of a part says nothing of the rest.
    for figure in figures.iter().filter(|figure| options.only.is_empty() || figure.reached.is_some()) {
        table.row([figure.what.clone(), figure.goal(), figure.reached(), figure.verdict().to_owned()]);
    }
    println!("{table}");
    let missed = figures.iter().filter(|figure| figure.is_missed()).count();
    if missed > 0 {
        println!("{missed} figures are missed.");
    }
    missed == 0
}

/// Writes the CSV and the plots. Short and partial runs have files of their own, so that they do not
/// replace those of a full one.
fn write(results: &Results, options: &Options) -> Result<(), Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let (csv_name, prefix) = if options.is_published() { ("latest.csv", "") } else { ("quick.csv", "quick-") };
    let path = folder.join(csv_name);
    let mut text = csv::text(results, options)?;
    if options.publish {
        text = csv::beside(&std::fs::read_to_string(&path).unwrap_or_default(), &text);
    }
    std::fs::write(&path, text)?;
    plot::draw(results, options, &|name| folder.join(format!("{prefix}{name}")))?;
    println!("Every figure of this run is in {}, and the plots are beside it.\n", path.display());
    Ok(())
}
