//! Random missions with random ends, against an interpreter that looks at everything again after every end.

use super::plan::{Decision, Work, anew, decide};
use super::status::{Required, StepStatus};
use super::template::results::{AT_ONCE, ended_before, has};
use super::template::{Parent, Step, Template};
use crate::jsonb::Item;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Steps that wait for some of those before them, so that there is no cycle.
fn template(shape: &[(u64, u8, u8)]) -> Template<'static> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (number, (before, required, join)) in shape.iter().enumerate() {
        let chosen = (0..number.min(60)).filter(|bit| before >> bit & 1 == 1);
        let parents: Vec<Parent> = chosen
            .map(|bit| Parent { step: number - 1 - bit, required: Required::ALL[(*required as usize + bit) % 4] })
            .collect();
        let level = parents.iter().map(|parent| steps[parent.step].level + 1).max().unwrap_or(0);
        let need = if parents.is_empty() { 0 } else { 1 + i32::from(*join) % parents.len() as i32 };
        let (name, kind, params) = (format!("s{number}"), "k".to_owned(), Item::Null);
        let step = Step { name, kind, executor: None, params, parents, need, fails_mission: false, level, spec: None };
        steps.push(step);
    }
    Template {
        title: None,
        mode: "graceful",
        timeout_seconds: None,
        compensates_failure: false,
        steps,
        needs_key: None,
    }
}

/// The counters, as the extension keeps them in rows.
struct Run<'t> {
    template: &'t Template<'static>,
    behind: Vec<Vec<(usize, Required)>>,
    status: Vec<Option<StepStatus>>,
    counters: Vec<(i32, i32)>,
    begun: Vec<usize>,
    /// The steps that the last call has locked, one after the other: those that ended, and those behind them.
    locked: Vec<(i32, usize)>,
}

impl<'t> Run<'t> {
    fn new(template: &'t Template<'static>) -> Run<'t> {
        let mut behind = vec![Vec::new(); template.steps.len()];
        for (number, step) in template.steps.iter().enumerate() {
            step.parents.iter().for_each(|parent| behind[parent.step].push((number, parent.required)));
        }
        let counters = template.steps.iter().map(|step| (0, step.parents.len() as i32)).collect();
        let begun = (0..template.steps.len()).filter(|number| template.steps[*number].parents.is_empty()).collect();
        Run { template, behind, status: vec![None; template.steps.len()], counters, begun, locked: Vec::new() }
    }

    /// Several steps that were begun end in one transaction.
    fn end(&mut self, ended: &[(usize, StepStatus)]) {
        let mut work = Work::default();
        self.locked.clear();
        for (step, status) in ended {
            work.end(self.template.steps[*step].level, *step, *status, |_, last| last);
        }
        while let Some(steps) = work.next_level() {
            for (step, change) in steps {
                self.locked.push((self.template.steps[step].level, step));
                if let Some(status) = change.end {
                    self.note(step, status, &mut work);
                    continue;
                }
                if self.status[step].is_some() || self.begun.contains(&step) {
                    continue;
                }
                self.counters[step].0 += change.met;
                self.counters[step].1 -= change.ended;
                match decide(self.template.steps[step].need, self.counters[step].0, self.counters[step].1) {
                    Decision::Begin => self.begun.push(step),
                    Decision::Skip => self.note(step, StepStatus::Skipped, &mut work),
                    Decision::Wait => {}
                }
            }
        }
    }

    fn note(&mut self, step: usize, status: StepStatus, work: &mut Work<usize, StepStatus>) {
        assert!(self.status[step].replace(status).is_none(), "{step} ended twice");
        for (child, required) in &self.behind[step] {
            work.add(self.template.steps[*child].level, *child, required.is_met_by(status));
        }
    }
}

/// What every step becomes, found by looking at all of them until nothing changes.
fn naive(template: &Template<'_>, status: &mut [Option<StepStatus>], begun: &mut BTreeSet<usize>) {
    loop {
        let before = (status.to_vec(), begun.clone());
        for (number, step) in template.steps.iter().enumerate() {
            if status[number].is_some() || begun.contains(&number) {
                continue;
            }
            let met =
                step.parents.iter().filter(|p| status[p.step].is_some_and(|s| p.required.is_met_by(s))).count() as i32;
            let open = step.parents.iter().filter(|p| status[p.step].is_none()).count() as i32;
            if met >= step.need {
                begun.insert(number);
            } else if met + open < step.need {
                status[number] = Some(StepStatus::Skipped);
            }
        }
        if before == (status.to_vec(), begun.clone()) {
            return;
        }
    }
}

proptest! {
    #[test]
    fn every_step_ends_once_and_begins_when_the_naive_reading_says(
        shape in proptest::collection::vec((any::<u64>(), any::<u8>(), any::<u8>()), 1..40),
        sparse in any::<bool>(),
        picks in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 1_usize..4), 200),
    ) {
        let shape: Vec<_> = shape.into_iter().map(|(a, b, c)| (if sparse { a & (a >> 7) & (a >> 13) } else { a }, b, c)).collect();
        let template = template(&shape);
        let mut run = Run::new(&template);
        assert!(template.steps.len() <= AT_ONCE);
        let sure = ended_before(&template.steps, 0);
        let (mut status, mut begun) = (vec![None; template.steps.len()], BTreeSet::new());
        naive(&template, &mut status, &mut begun);
        for (pick, well, together) in picks {
            let mut open: Vec<usize> = run.begun.iter().copied().filter(|step| run.status[*step].is_none()).collect();
            prop_assert_eq!(run.begun.iter().copied().collect::<BTreeSet<_>>(), begun.clone());
            prop_assert_eq!(run.begun.len(), begun.len(), "a step was begun twice");
            prop_assert_eq!(&run.status, &status);
            if open.is_empty() {
                break;
            }
            let first = pick.index(open.len());
            open.rotate_left(first);
            open.truncate(together);
            let end = if well { StepStatus::Succeeded } else { StepStatus::Failed };
            let ended: Vec<(usize, StepStatus)> = open.into_iter().map(|step| (step, end)).collect();
            let begun_before = run.begun.len();
            run.end(&ended);
            for step in &run.begun[begun_before..] {
                let still_open = (0..run.status.len()).find(|other| has(&sure[*step], *other) && run.status[*other].is_none());
                prop_assert_eq!(still_open, None, "step {} begins while this one is open, of which it is sure", step);
            }
            prop_assert!(run.locked.is_sorted(), "steps are locked by level and number: {:?}", run.locked);
            ended.iter().for_each(|(step, end)| status[*step] = Some(*end));
            naive(&template, &mut status, &mut begun);
        }
        // 200 ends are more than there are steps.
        prop_assert!(run.status.iter().all(Option::is_some), "every step ends: {:?}", run.status);
    }

    #[test]
    fn a_fork_runs_anew_what_is_behind_its_beginning_and_nothing_it_can_keep(
        shape in proptest::collection::vec((any::<u64>(), any::<u8>(), any::<u8>()), 1..40),
        well in proptest::collection::vec(any::<bool>(), 40),
        from in any::<prop::sample::Index>(),
    ) {
        let template = template(&shape);
        let from = from.index(template.steps.len());
        let anew = anew(&template, from, &well[..template.steps.len()]);
        for (number, step) in template.steps.iter().enumerate() {
            let because = number == from || !well[number] || step.parents.iter().any(|parent| anew[parent.step]);
            prop_assert_eq!(anew[number], because);
        }
    }
}
