//! A mission as text that Mermaid or Graphviz draws.

use super::status::{Required, ShownStatus};
use std::fmt::Write;

pub struct Node {
    pub name: String,
    pub kind: String,
    pub status: ShownStatus,
}

/// From one node to another, by their numbers; `required` is how the first must end.
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub required: Required,
}

/// The colours that stand for a status: of the area, and of the line around it.
fn colours(status: ShownStatus) -> (&'static str, &'static str) {
    match status {
        ShownStatus::Waiting => ("#f4f4f4", "#888888"),
        ShownStatus::Queued => ("#fff4cc", "#b38600"),
        ShownStatus::Running => ("#d6e9ff", "#1f6fbf"),
        ShownStatus::Succeeded => ("#d9f2d9", "#2e7d32"),
        ShownStatus::Failed => ("#fbd9d9", "#b71c1c"),
        ShownStatus::Skipped => ("#ececec", "#9e9e9e"),
        ShownStatus::Cancelled => ("#e6dff2", "#5e35b1"),
    }
}

pub fn mermaid(title: &str, nodes: &[Node], edges: &[Edge]) -> String {
    let mut text = format!("---\ntitle: {}\n---\nflowchart TD\n", serde_json::Value::from(title));
    for (number, node) in nodes.iter().enumerate() {
        let label = format!("{}<br/>{}", mermaid_text(&node.name), mermaid_text(&node.kind));
        writeln!(text, "    s{number}[\"{label}\"]:::{}", node.status.name()).ok();
    }
    for edge in edges {
        match edge.required {
            Required::Succeeded => writeln!(text, "    s{} --> s{}", edge.from, edge.to),
            required => writeln!(text, "    s{} -.->|{}| s{}", edge.from, required.name(), edge.to),
        }
        .ok();
    }
    for status in ShownStatus::ALL {
        let (name, (fill, line)) = (status.name(), colours(*status));
        writeln!(text, "    classDef {name} fill:{fill},stroke:{line},color:#222222").ok();
    }
    text
}

/// What would end a label, or begin something in it, as numbers.
fn mermaid_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_alphanumeric() || " _-.:,/()".contains(c) => safe.push(c),
            c if c.is_control() => safe.push(' '),
            c => write!(safe, "#{};", u32::from(c)).unwrap_or_default(),
        }
    }
    safe
}

pub fn graphviz(title: &str, nodes: &[Node], edges: &[Edge]) -> String {
    let mut text = format!("digraph mission {{\n    label={};\n    node [shape=box, style=filled];\n", dot_text(title));
    for (number, node) in nodes.iter().enumerate() {
        let (fill, line) = colours(node.status);
        let label = dot_text(&format!("{}\n{}\n{}", node.name, node.kind, node.status.name()));
        writeln!(text, "    s{number} [label={label}, fillcolor=\"{fill}\", color=\"{line}\"];").ok();
    }
    for edge in edges {
        let (from, to) = (edge.from, edge.to);
        match edge.required {
            Required::Succeeded => writeln!(text, "    s{from} -> s{to};"),
            required => writeln!(text, "    s{from} -> s{to} [label=\"{}\", style=dashed];", required.name()),
        }
        .ok();
    }
    text.push_str("}\n");
    text
}

fn dot_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(draw: fn(&str, &[Node], &[Edge]) -> String, name: &str) -> String {
        let node = |name: &str, status| Node { name: name.into(), kind: "k".into(), status };
        let nodes = [node(name, ShownStatus::Succeeded), node("b", ShownStatus::Running)];
        let edges = [Required::Succeeded, Required::Failed].map(|required| Edge { from: 0, to: 1, required });
        draw("t", &nodes, &edges)
    }

    #[test]
    fn states_are_classes_and_what_is_asked_for_is_on_the_arrow() {
        let text = drawn(mermaid, "a");
        for line in ["s0[\"a<br/>k\"]:::succeeded", "s1[\"b<br/>k\"]:::running", "s0 --> s1", "s0 -.->|failed| s1"] {
            assert!(text.contains(line), "{text}");
        }
        let text = drawn(graphviz, "a");
        for line in ["s0 [label=\"a\\nk\\nsucceeded\"", "s0 -> s1;", "s0 -> s1 [label=\"failed\", style=dashed];"] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn no_name_can_end_its_label() {
        let bad = "x\"]; click s0 \"javascript:1\"\n%%<b>\\";
        let text = drawn(mermaid, bad);
        assert_eq!(text.lines().filter(|line| line.contains("click")).count(), 1);
        assert!(!text.contains("<b>") && !text.contains("x\"") && text.contains("#34;"));
        let text = drawn(graphviz, bad);
        assert!(text.contains("x\\\"]; click"));
        assert_eq!(text.lines().count(), drawn(graphviz, "a").lines().count());
    }
}
