//! Reading one step.

use super::read;
use super::{INPUT, LONGEST_DESCRIPTION, Outside, Parent, Spec, Step};
use crate::Refusal;
use crate::error::shown;
use crate::input;
use crate::jsonb;
use crate::mission::status::Required;
use crate::mission::{params, path};
use crate::reader::{Member, Reader};
use crate::retry_policy;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

/// From a microsecond to ten years.
pub const TIMEOUTS: RangeInclusive<f64> = 0.000_001..=315_360_000.0;
const LARGEST_QUORUM: i64 = 1_000_000;
const MOST_ATTEMPTS: i32 = 1_000;

const KEYS: [&str; 20] = [
    "name",
    "kind",
    "description",
    "params",
    "executor",
    "depends_on",
    "join",
    "when",
    "for_each",
    "on_failure",
    "timeout_seconds",
    "stall_seconds",
    "retry",
    "queue",
    "priority",
    "mission",
    "sleep",
    "signal",
    "effects",
    "compensation",
];

/// What a step may be in place of a job; then it needs no kind, and this word is its kind.
pub const STEPS_WITHOUT_KIND: [&str; 3] = ["mission", "sleep", "signal"];

/// A step whose failure leads to another.
pub struct Branch {
    pub from: usize,
    pub to: usize,
    /// Where the template says so.
    pub path: String,
}

/// How many of several must end as asked.
enum Join {
    All,
    Any,
    Quorum(i64),
}

/// A step that is being read.
pub struct Reading<'r, 'a, O> {
    pub at: &'r Reader<'a>,
    pub number: usize,
    pub names: &'r HashMap<String, usize>,
    pub outside: &'r O,
    /// Missions around it.
    pub depth: usize,
    pub sequential: bool,
}

impl<'a, O: Outside> Reading<'_, 'a, O> {
    pub fn step(
        &self,
        total: &mut usize,
        branches: &mut Vec<Branch>,
        needs_key: &mut Option<(String, String)>,
    ) -> Result<Step<'a>, Refusal> {
        let at = self.at;
        at.clone().hint("For example: {\"name\": \"draft\", \"kind\": \"draft_post\"}.").map()?;
        at.object(&KEYS)?;
        at.member("description").at_most(LONGEST_DESCRIPTION)?;
        let name = at.member("name").text()?.map_or_else(|| format!("step_{}", self.number + 1), str::to_owned);
        let mission = at.member("mission").reader();
        let without_kind = STEPS_WITHOUT_KIND.into_iter().find(|word| at.member(word).is_there());
        let kind = match at.member("kind").name(input::LONGEST_NAME)?.or(without_kind) {
            Some(kind) => kind.to_owned(),
            None => {
                let problem = format!("{}: the step has no kind", at.inside("kind"));
                return Err(Refusal::new(problem, "Workers claim by kind; or give it a mission, a sleep or a signal."));
            }
        };
        let executor = at.member("executor").name(input::LONGEST_NAME)?.map(str::to_owned);
        let mut reads = BTreeSet::new();
        let mut spec = self.spec(&mut reads)?;
        spec.wait = self.wait(&mut reads)?;
        let params = self.params(spec.for_each.is_some(), &mut reads)?;
        spec.reads = reads.into_iter().collect();
        let parents = self.parents()?;
        let need = self.need(parents.len())?;
        if let Some(mission) = mission {
            if spec.for_each.is_some() {
                self.outside.has_waits().map_err(|refusal| mission.told(refusal))?;
            }
            let inner = read::template(&mission, self.outside, self.depth + 1, total)?;
            *needs_key = needs_key.take().or(inner.needs_key);
            spec.mission = Some(jsonb::root(mission.item())?);
        } else if spec.wait.is_none() && needs_key.is_none() && self.outside.needs_key(spec.queue.as_deref(), &kind) {
            *needs_key = Some((at.path().to_owned(), kind.clone()));
        }
        let fails_mission = self.on_failure(branches)?;
        let spec = Some(spec).filter(|spec| *spec != Spec::default()).map(Box::new);
        Ok(Step { name, kind, executor, params, parents, need, fails_mission, level: 0, spec })
    }

    fn spec(&self, reads: &mut BTreeSet<String>) -> Result<Spec, Refusal> {
        let at = self.at;
        let when = at.member("when").read(|when| self.path(&when, when.text()?, false, reads))?;
        let (for_each, items_needed) = self.for_each(reads)?.unzip();
        let queue = at.member("queue").read(|queue| {
            let name = queue.text()?;
            self.outside.queue(name).map_err(|refusal| queue.told(refusal))?;
            Ok(name.to_owned())
        })?;
        let tries = at.member("retry").reader();
        let retry = tries.as_ref().map(|retry| retry_policy::of_one(retry, &["max_attempts"])).transpose()?.flatten();
        let max_attempts = tries.map_or(Member::ABSENT, |retry| retry.member("max_attempts"));
        Ok(Spec {
            when: when.map(str::to_owned),
            for_each: for_each.map(str::to_owned),
            items_needed: items_needed.flatten(),
            timeout_seconds: at.member("timeout_seconds").hint("Leave it out for no time-out.").seconds(TIMEOUTS)?,
            stall_seconds: at.member("stall_seconds").whole(input::STALLS)?,
            max_attempts: max_attempts.whole(1..=MOST_ATTEMPTS)?,
            retry,
            queue,
            priority: at.member("priority").whole(0..=i32::MAX)?,
            mission: None,
            wait: None,
            reads: Vec::new(),
        })
    }

    /// The path to the list, and how many items must succeed; None: all.
    fn for_each(&self, reads: &mut BTreeSet<String>) -> Result<Option<(&'a str, Option<i64>)>, Refusal> {
        let Some(at) = self.at.member("for_each").reader() else { return Ok(None) };
        let (path, needed) = if at.is_text() {
            (at.clone(), None)
        } else {
            let example = "For example: {\"in\": \"$.search.urls\", \"join\": {\"quorum\": 3}}.";
            at.clone().hint(example).object(&["in", "join"])?;
            let path = at.member("in").reader().ok_or_else(|| {
                let problem = format!("{}: there is no path to a list", at.inside("in"));
                Refusal::new(problem, "For example: {\"in\": \"$.search.urls\"}.")
            })?;
            let needed = match join(at.member("join"))? {
                Join::All => None,
                Join::Any => Some(1),
                Join::Quorum(n) => Some(n),
            };
            (path, needed)
        };
        let text = path.text()?;
        self.path(&at, text, false, reads)?;
        Ok(Some((text, needed)))
    }

    fn params(&self, has_item: bool, reads: &mut BTreeSet<String>) -> Result<jsonb::Item<'a>, Refusal> {
        let Some(at) = self.at.member("params").hint("For example: {\"topic\": \"bees\"}.").reader() else {
            return Ok(Reader::empty("params").item());
        };
        at.map()?;
        params::each_reference(&at, &mut |at, path| {
            self.path(at, path, has_item, reads)?;
            if path::references(path)?.is_empty() {
                let hint = "Give the value itself, or refer to a step, as in $.draft.url.";
                return Err(at.refuse("this refers to nothing", hint));
            }
            Ok(())
        })?;
        self.outside.params(at.item()).map_err(|refusal| at.told(refusal))?;
        Ok(at.item())
    }

    /// Checks a path that stands at this place, and notes whose results it reads.
    pub(super) fn path<'p>(
        &self,
        at: &Reader<'_>,
        path: &'p str,
        has_item: bool,
        reads: &mut BTreeSet<String>,
    ) -> Result<&'p str, Refusal> {
        self.outside.path(path).map_err(|problem| {
            at.refuse(
                format!("\"{}\" is not an SQL/JSON path: {problem}", shown(path)),
                "Write it as PostgreSQL's jsonb_path_query reads it, as in $.draft.score > 0.8.",
            )
        })?;
        let found = path::references(path).map_err(|refusal| at.told(refusal))?;
        for name in &found.variables {
            if !(has_item && ["item", "index"].contains(&name.as_str())) {
                return Err(at.refuse(
                    format!("there is no variable ${}", shown(name)),
                    "The parameters of a step with for_each may use $item and $index; there are no others.",
                ));
            }
        }
        for name in found.steps.iter().filter(|name| *name != INPUT) {
            self.find(at, name)?;
        }
        reads.extend(found.steps);
        Ok(path)
    }

    fn find(&self, at: &Reader<'_>, name: &str) -> Result<usize, Refusal> {
        self.names.get(name).copied().ok_or_else(|| {
            let mut known: Vec<&str> = self.names.keys().map(String::as_str).collect();
            known.sort_unstable();
            let more = if known.len() > 20 { ", …" } else { "" };
            known.truncate(20);
            at.refuse(
                format!("there is no step \"{}\"", shown(name)),
                format!("The steps are: {}{more}.", known.join(", ")),
            )
        })
    }

    fn parents(&self) -> Result<Vec<Parent>, Refusal> {
        let example = "For example: [\"draft\"], or [{\"step\": \"draft\", \"status\": \"failed\"}].";
        let Some(at) = self.at.member("depends_on").hint(example).reader() else {
            let before = self.number.checked_sub(1).filter(|_| self.sequential);
            return Ok(before.map(|step| Parent { step, required: Required::Succeeded }).into_iter().collect());
        };
        if self.sequential {
            return Err(at.refuse(
                "the steps of a sequential mission have no depends_on, because each waits for the one before it",
                "Leave out depends_on, or \"sequential\".",
            ));
        }
        let mut parents: Vec<Parent> = Vec::new();
        let mut seen = BTreeSet::new();
        for at in at.elements()? {
            let (name, required) = dependency(&at)?;
            let step = self.find(&at, name)?;
            if step == self.number {
                return Err(at.refuse(format!("\"{}\" waits for itself", shown(name)), "Leave it out."));
            }
            if !seen.insert(step) {
                return Err(at.refuse(format!("\"{}\" is named twice", shown(name)), "Name each step once."));
            }
            parents.push(Parent { step, required });
        }
        Ok(parents)
    }

    fn need(&self, parents: usize) -> Result<i32, Refusal> {
        let Some(at) = self.at.member("join").reader() else { return Ok(parents as i32) };
        if parents == 0 {
            return Err(at.refuse("there is nothing to join: the step has no depends_on", "Leave it out."));
        }
        Ok(match join(Member::from(Some(at.clone())))? {
            Join::All => parents as i32,
            Join::Any => 1,
            Join::Quorum(n) if n as usize <= parents => n as i32,
            Join::Quorum(n) => {
                return Err(at.refuse(
                    format!("a quorum of {n} is never reached, because depends_on names {parents}"),
                    "Give a quorum of at most as many as depends_on names.",
                ));
            }
        })
    }

    /// Whether a failure ends the mission; a branch is noted.
    fn on_failure(&self, branches: &mut Vec<Branch>) -> Result<bool, Refusal> {
        let Some(at) = self.at.member("on_failure").reader() else { return Ok(true) };
        if !at.is_object() {
            let at = at.hint("Use \"fail\", \"continue\" or {\"goto\": \"<step>\"}.");
            return Ok(at.word(&["fail", "continue"])? == "fail");
        }
        at.object(&["goto"])?;
        let goto = at.member("goto").hint("Name the step that follows the failure.").reader();
        let goto = goto.ok_or_else(|| at.refuse("no step is named", "For example: {\"goto\": \"apologise\"}."))?;
        let name = goto.text()?;
        let to = self.find(&goto, name)?;
        if to == self.number {
            return Err(
                goto.refuse(format!("\"{}\" waits for its own failure", shown(name)), "To try again, use retry.")
            );
        }
        branches.push(Branch { from: self.number, to, path: goto.path().to_owned() });
        Ok(false)
    }
}

/// The step that an entry of depends_on names, and how it must end.
fn dependency<'a>(at: &Reader<'a>) -> Result<(&'a str, Required), Refusal> {
    if at.is_text() {
        return Ok((at.text()?, Required::Succeeded));
    }
    at.object(&["step", "status"])?;
    let step = at.member("step").text()?;
    let step = step.ok_or_else(|| at.refuse("no step is named", "For example: {\"step\": \"draft\"}."))?;
    let status = at.member("status").word(Required::NAMES)?;
    Ok((step, status.and_then(Required::parse).unwrap_or(Required::Succeeded)))
}

fn join(at: Member<'_>) -> Result<Join, Refusal> {
    let Some(at) = at.hint("Use \"all\", \"any\" or {\"quorum\": 2}.").reader() else { return Ok(Join::All) };
    if at.is_object() {
        at.object(&["quorum"])?;
        let quorum = at.member("quorum").hint("For example: {\"quorum\": 2}.").whole(1..=LARGEST_QUORUM)?;
        return quorum.map(Join::Quorum).ok_or_else(|| at.must_be("all, any or an object with a quorum"));
    }
    match at.text() {
        Ok("all") => Ok(Join::All),
        Ok("any") => Ok(Join::Any),
        _ => Err(at.must_be("all, any or an object with a quorum")),
    }
}
