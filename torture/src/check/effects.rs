//! What agentq says of an effect is what the outside says, and a mission that did not succeed leaves no effect behind.

use super::{Problem, Rule};
use crate::outside::{Outside, State};
use postgres::{Client, Error};

/// The effects of trips, with what became of their missions.
const EFFECTS: &str = "
    SELECT e.idempotency_key, e.status, coalesce(m.status, 'none')
    FROM agentq.v_effect e LEFT JOIN agentq.v_mission m USING (mission_id)
    WHERE e.effect_type = 'room.book'";

/// Compares them. Nobody may be at work.
pub fn effects(client: &mut Client, outside: &Outside) -> Result<Vec<Problem>, Error> {
    let mut problems = Vec::new();
    for row in client.query(EFFECTS, &[])? {
        let (key, status, mission): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let there = outside.state(&key);
        let fits = match status.as_str() {
            "planned" => there == State::Nothing,
            "succeeded" => there == State::Done,
            "compensated" => there == State::Undone,
            // Nobody knows, or somebody has yet to see to it.
            _ => true,
        };
        if !fits {
            problems.push(Problem::new(
                Rule::Together,
                format!("the effect {key} is {status}, and outside it is {there:?}"),
            ));
        }
        if status == "succeeded" && ["failed", "cancelled"].contains(&mission.as_str()) {
            let text = format!("the effect {key} stands, and its mission is {mission}");
            problems.push(Problem::new(Rule::Together, text));
        }
    }
    Ok(problems)
}
