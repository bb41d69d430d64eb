//! Looking at a mission: all of it, what it waits for, and how it is drawn.

use super::unknown_mission;
use crate::base::bounds::bounded;
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use agentq_core::input;
use agentq_core::mission::graph::{self, Edge, Node};
use agentq_core::mission::status::{Required, ShownStatus};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::collections::HashMap;

statements!("inspect.sql": MISSION_GET, MISSION_EXPLAIN, GRAPH_NODES, GRAPH_EDGES, MISSION_TITLE, MISSION_WAITS_FOR, MISSION_UNTOLD);

/// Steps that an answer lists.
const LISTED: i32 = 1_000;
/// Open steps that are explained one by one.
const EXPLAINED: i32 = 100;

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_get(p_mission: Option<Uuid>) -> Jsonb {
    answer::if_on(|_| {
        let mission_id = required("p_mission", p_mission);
        db::answer(|db| {
            let row = db.run(&MISSION_GET, &[mission_id.into(), LISTED.into()]);
            if row.is_empty() { unknown_mission(mission_id) } else { row.only() }
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_explain(p_mission: Option<Uuid>) -> Jsonb {
    answer::if_on(|_| {
        let mission_id = required("p_mission", p_mission);
        db::answer(|db| {
            let row = db.run(&MISSION_EXPLAIN, &[mission_id.into(), EXPLAINED.into()]);
            let answer: Jsonb = if row.is_empty() { unknown_mission(mission_id) } else { row.only() };
            // Steps that wait without a worker, and ends of which the mission could not be told yet.
            [("waits", &MISSION_WAITS_FOR), ("untold", &MISSION_UNTOLD)].into_iter().fold(
                answer,
                |answer, (name, of)| {
                    let row = db.run(of, &[mission_id.into(), EXPLAINED.into()]);
                    let found = if row.is_empty() { None } else { row.maybe_only::<Jsonb>() };
                    found.map_or(answer, |found| answer.with(name, found))
                },
            )
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_graph(p_mission: Option<Uuid>, p_format: default!(Option<&str>, "'mermaid'")) -> String {
    bounded!(fn_mission_graph: p_format);
    let mission_id = required("p_mission", p_mission);
    let format = input::one_of("p_format", p_format.unwrap_or("mermaid"), &["mermaid", "graphviz"]).or_raise();
    db::with_own_names(|| {
        db::connect(|db| {
            let title = db.run(&MISSION_TITLE, &[mission_id.into()]);
            if title.is_empty() {
                unknown_mission(mission_id)
            }
            let title: String = title.only();
            let (mut nodes, mut numbers) = (Vec::new(), HashMap::new());
            db.run(&GRAPH_NODES, &[mission_id.into()]).each(|row| {
                numbers.insert(*row.must::<Uuid>("step_id").as_bytes(), nodes.len());
                let status = row.word("status", ShownStatus::parse);
                nodes.push(Node { name: row.must("name"), kind: row.must("kind"), status });
            });
            let mut edges = Vec::new();
            db.run(&GRAPH_EDGES, &[mission_id.into()]).each(|row| {
                let number = |column| numbers.get(row.must::<Uuid>(column).as_bytes()).copied();
                if let (Some(from), Some(to)) = (number("parent_id"), number("child_id")) {
                    edges.push(Edge { from, to, required: row.word("required", Required::parse) });
                }
            });
            edges.sort_by_key(|edge| (edge.from, edge.to));
            if format == "mermaid" {
                graph::mermaid(&title, &nodes, &edges)
            } else {
                graph::graphviz(&title, &nodes, &edges)
            }
        })
    })
}
