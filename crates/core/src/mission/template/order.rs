//! The order of steps: what failures lead to, how far each step is from the beginning, and cycles.

use super::step::Branch;
use super::{Parent, Step};
use crate::Refusal;
use crate::error::shown;
use crate::mission::status::Required;
use crate::reader::Reader;

/// A step to which a failure leads waits for the failures that lead to it, for one of them.
pub fn add_branches(steps: &mut [Step<'_>], branches: Vec<Branch>) -> Result<(), Refusal> {
    let own: Vec<bool> = steps.iter().map(|step| !step.parents.is_empty()).collect();
    for Branch { from, to, path } in branches {
        if own[to] {
            return Err(Refusal::new(
                format!("{path}: \"{}\" waits for another step already", shown(&steps[to].name)),
                "A step to which a failure leads has no depends_on and is in no sequential mission. Or use on_failure \"continue\", and depends_on with the status failed.",
            ));
        }
        steps[to].parents.push(Parent { step: from, required: Required::Failed });
        steps[to].need = 1;
    }
    Ok(())
}

/// A step cannot wait for a failure that ends the mission: it would never begin.
pub fn check_failures(steps: &[Step<'_>], list: &Reader<'_>) -> Result<(), Refusal> {
    for (number, step) in steps.iter().enumerate() {
        let ends_all = |parent: &&Parent| parent.required == Required::Failed && steps[parent.step].fails_mission;
        if let Some(parent) = step.parents.iter().find(ends_all) {
            let name = shown(&steps[parent.step].name);
            return Err(Refusal::new(
                format!("{}[{number}]: it waits for the failure of \"{name}\", which ends the mission", list.path()),
                format!("Give \"{name}\" the on_failure \"continue\"."),
            ));
        }
    }
    Ok(())
}

/// Finds the level of each step, or the cycle that keeps it from having one.
pub fn find_levels(steps: &mut [Step<'_>], list: &Reader<'_>) -> Result<(), Refusal> {
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    let mut open: Vec<usize> = Vec::with_capacity(steps.len());
    for (number, step) in steps.iter().enumerate() {
        open.push(step.parents.len());
        step.parents.iter().for_each(|parent| behind[parent.step].push(number));
    }
    let mut free: Vec<usize> = (0..steps.len()).filter(|number| open[*number] == 0).collect();
    let mut placed = 0;
    while let Some(number) = free.pop() {
        placed += 1;
        for child in &behind[number] {
            steps[*child].level = steps[*child].level.max(steps[number].level + 1);
            open[*child] -= 1;
            if open[*child] == 0 {
                free.push(*child);
            }
        }
    }
    if placed == steps.len() {
        return Ok(());
    }
    // Going back from any step that was not placed ends in the cycle.
    let mut way: Vec<usize> = Vec::new();
    let mut number = (0..steps.len()).find(|number| open[*number] > 0).unwrap_or_default();
    while !way.contains(&number) {
        way.push(number);
        let parent = steps[number].parents.iter().find(|parent| open[parent.step] > 0);
        number = parent.map_or(number, |parent| parent.step);
    }
    let begin = way.iter().position(|step| *step == number).unwrap_or_default();
    let mut names: Vec<&str> = way[begin..].iter().rev().map(|step| steps[*step].name.as_str()).collect();
    let more = names.len().saturating_sub(10);
    names.truncate(10);
    names.extend((more > 0).then_some("…"));
    names.extend(names.first().copied());
    Err(Refusal::new(
        format!("{}[{number}]: these steps wait for each other: {}", list.path(), shown_way(&names)),
        "Leave out one of the dependencies.",
    ))
}

fn shown_way(names: &[&str]) -> String {
    names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(" → ")
}
