//! What is wrong with a catalog.
//!
//! The graph has operations, compensations and effects. A compensation follows what it is of. A compensation that is
//! not a pure counter does new work: after it follow its effects, and the compensations of whatever else produces them.
//! A pure counter ends its chain there, because undoing an undoing is never called for by itself.

use super::{CAPABILITIES, Manifest};
use crate::error::Refusal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: &'static str,
    /// Where in the document.
    pub path: String,
    /// From the operation on, if it is about a chain.
    pub chain: Vec<String>,
    pub message: String,
    pub hint: String,
}

impl Fault {
    fn new(code: &'static str, path: String, message: String, hint: &str) -> Fault {
        Fault { code, path, chain: Vec::new(), message, hint: hint.to_owned() }
    }

    pub fn to_value(&self) -> Value {
        json!({"code": self.code, "path": self.path, "chain": self.chain, "message": self.message, "hint": self.hint})
    }

    /// The first of some faults, as a caller is told of it.
    pub fn refusal(faults: &[Fault]) -> Option<Refusal> {
        let first = faults.first()?;
        let more = match faults.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more: agentq.fn_effect_manifest_check shows all)"),
        };
        Some(Refusal::new(format!("{}: {} [{}]{more}", first.path, first.message, first.code), first.hint.clone()))
    }
}

impl Manifest {
    /// All that is wrong with it, where a chain may have at most `max_depth` compensations.
    pub fn faults(&self, max_depth: usize) -> Vec<Fault> {
        let mut faults = self.names();
        faults.extend(self.missing());
        faults.extend(self.impure());
        faults.extend(Graph::of(self).faults(max_depth));
        faults.extend(self.incapable());
        faults
    }

    /// What the catalog asks for and this runtime cannot do.
    fn incapable(&self) -> Vec<Fault> {
        let lacking = CAPABILITIES.iter().filter(|(name, has, _)| !has && self.requires.contains(*name));
        let fault = |(name, _, how): &(&str, bool, &str)| {
            let message = format!("this runtime has no {name}: {how}");
            let hint =
                "Leave it out of \"requires\", if what there is will do. agentq.fn_runtime_capabilities() lists it.";
            Fault::new("missing_capability", "requires".to_owned(), message, hint)
        };
        lacking.map(fault).collect()
    }

    /// Names that are used twice, or that nobody has.
    fn names(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, operation) in &self.operations {
            let path = format!("operations.{name}");
            if self.compensations.contains_key(name) {
                let message = format!("\"{name}\" is an operation and a compensation");
                faults.push(Fault::new("duplicate_name", path.clone(), message, "Give one of them another name."));
            }
            if let Some(other) = kinds.insert(&operation.job_kind, name) {
                let message = format!("jobs of the kind \"{}\" are those of \"{other}\" already", operation.job_kind);
                let hint = "Give one of the operations another job_kind.";
                faults.push(Fault::new("duplicate_job_kind", format!("{path}.job_kind"), message, hint));
            }
            let Some(named) = &operation.compensation else { continue };
            let path = format!("{path}.compensation");
            match self.compensations.get(named) {
                None => {
                    let message = format!("there is no compensation \"{named}\"");
                    let hint = "Declare it under compensations in the same manifest.";
                    faults.push(Fault::new("unknown_compensation", path, message, hint));
                }
                Some(compensation) if compensation.of != *name => {
                    let message = format!("\"{named}\" is the compensation of \"{}\"", compensation.of);
                    faults.push(Fault::new("wrong_compensation", path, message, "Name one that is of this operation."));
                }
                Some(_) => {}
            }
        }
        for (name, compensation) in &self.compensations {
            if self.produces(&compensation.of).is_none() {
                let message = format!("there is no operation or compensation \"{}\"", compensation.of);
                let hint = "Declare the operation in the same manifest, or take the compensation out.";
                faults.push(Fault::new("unknown_operation", format!("compensations.{name}.of"), message, hint));
            }
        }
        faults.extend(self.unknown_effects());
        faults
    }

    /// Effects that something is said about, and that nobody produces.
    fn unknown_effects(&self) -> Vec<Fault> {
        let operations = self.operations.values().flat_map(|operation| &operation.produces);
        let compensations = self.compensations.values().flat_map(|compensation| &compensation.produces);
        let known: BTreeSet<&String> = operations.chain(compensations).collect();
        let inverses = self.inverse_of.iter().flat_map(|(one, other)| {
            let path = format!("inverse_of.{one}");
            [(path.clone(), one), (path, other)]
        });
        let idempotent = self.idempotent.iter().map(|name| (format!("idempotent.{name}"), name));
        let unknown = inverses.chain(idempotent).filter(|(_, name)| !known.contains(name));
        let fault = |(path, name): (String, &String)| {
            let message = format!("no operation and no compensation produces \"{name}\"");
            Fault::new("unknown_effect", path, message, "Mend the name, or take it out with null or false.")
        };
        unknown.map(fault).collect()
    }

    /// What requires a compensation and has none.
    fn missing(&self) -> Vec<Fault> {
        let operations =
            self.operations.iter().map(|(name, o)| ("operation", name, o.requires_compensation, &o.produces));
        let compensations =
            self.compensations.iter().map(|(name, c)| ("compensation", name, c.requires_compensation, &c.produces));
        let mut faults = Vec::new();
        for (what, name, required, produces) in operations.chain(compensations) {
            if !required {
                continue;
            }
            let path = format!("{what}s.{name}.requires_compensation");
            let hint = "Declare a compensation of it in the same manifest, with agentq.fn_effect_manifest_set.";
            if !self.compensations.values().any(|compensation| compensation.of == *name) {
                let message = format!("the {what} \"{name}\" requires a compensation and has none");
                faults.push(Fault::new("missing_compensation", path, message, hint));
                continue;
            }
            for effect in produces.iter().filter(|effect| self.compensation_for(name, effect).is_none()) {
                let message = format!("the {what} \"{name}\" requires a compensation and has none for \"{effect}\"");
                let hint = "Declare one that is no pure counter, or the inverse of the effect; if there are several, name one.";
                faults.push(Fault::new("missing_compensation", path.clone(), message, hint));
            }
        }
        faults
    }

    /// Pure counters whose effects are not the inverses of what they counter.
    fn impure(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (name, compensation) in self.compensations.iter().filter(|(_, c)| c.counter_effects) {
            let Some(parent) = self.produces(&compensation.of) else { continue };
            let path = format!("compensations.{name}.produces");
            let inverses: BTreeSet<&String> = parent.iter().filter_map(|effect| self.inverse_of.get(effect)).collect();
            let hint = "Declare under inverse_of which effect is the inverse of which, or leave counter_effects out.";
            if compensation.produces.is_empty() {
                let message = format!("\"{name}\" has counter_effects and produces nothing, so it counters nothing");
                faults.push(Fault::new("not_inverse", path.clone(), message, hint));
            }
            for effect in compensation.produces.iter().filter(|effect| !inverses.contains(effect)) {
                let message = format!(
                    "\"{name}\" has counter_effects, but \"{effect}\" is not the inverse of any effect of \"{}\"",
                    compensation.of
                );
                let chain = vec![compensation.of.clone(), name.clone(), effect.clone()];
                faults.push(Fault { chain, ..Fault::new("not_inverse", path.clone(), message, hint) });
            }
        }
        faults
    }
}

/// What may follow what, each step with the effect that leads to it, if one does.
struct Graph<'a> {
    manifest: &'a Manifest,
    /// Compensations, by their number, of each operation or compensation.
    of: BTreeMap<&'a str, Vec<usize>>,
    /// Who produces an effect and has compensations.
    producers: BTreeMap<&'a str, Vec<&'a str>>,
    names: Vec<&'a str>,
}

/// More faults about chains than this are not looked for.
const MOST_FAULTS: usize = 100;
/// The longest chain that is told whole.
const LONGEST_CHAIN: usize = 50;

/// A step to a compensation.
type Step<'a> = (Option<&'a str>, &'a str);

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Open,
    Done,
}

impl<'a> Graph<'a> {
    fn of(manifest: &'a Manifest) -> Self {
        let (mut of, mut producers): (BTreeMap<_, Vec<_>>, BTreeMap<_, Vec<_>>) = Default::default();
        let names: Vec<&str> = manifest.compensations.keys().map(String::as_str).collect();
        for (number, compensation) in manifest.compensations.values().enumerate() {
            of.entry(compensation.of.as_str()).or_default().push(number);
        }
        let operations = manifest.operations.iter().map(|(name, o)| (name, &o.produces));
        let compensations = manifest.compensations.iter().map(|(name, c)| (name, &c.produces));
        for (name, produces) in operations.chain(compensations) {
            for effect in produces.iter().filter(|_| of.contains_key(name.as_str())) {
                producers.entry(effect.as_str()).or_default().push(name.as_str());
            }
        }
        Graph { manifest, of, producers, names }
    }

    fn steps(&self, name: &str) -> Vec<Step<'a>> {
        let compensations = |name: &str| self.of.get(name).into_iter().flatten().copied();
        let mut known = vec![false; self.names.len()];
        let mut steps: Vec<Step<'a>> = Vec::new();
        for next in compensations(name) {
            known[next] = true;
            steps.push((None, self.names[next]));
        }
        if let Some(compensation) = self.manifest.compensations.get(name).filter(|c| !c.counter_effects) {
            for effect in &compensation.produces {
                for producer in self.producers.get(effect.as_str()).into_iter().flatten() {
                    for next in compensations(producer) {
                        if !std::mem::replace(&mut known[next], true) {
                            steps.push((Some(effect.as_str()), self.names[next]));
                        }
                    }
                }
            }
        }
        steps
    }

    fn faults(&self, max_depth: usize) -> Vec<Fault> {
        let mut seen = BTreeMap::new();
        let mut faults = Vec::new();
        for name in self.manifest.compensations.keys() {
            self.find_cycles((None, name), &mut seen, &mut Vec::new(), &mut faults);
        }
        if !faults.is_empty() {
            return faults;
        }
        let mut longest = BTreeMap::new();
        for name in self.manifest.operations.keys() {
            let depth = self.depth(name, &mut longest);
            if depth > max_depth && faults.len() < MOST_FAULTS {
                let chain = self.longest_chain(name, &longest);
                let message = format!(
                    "a chain of {depth} compensations is longer than the {max_depth} allowed: {}",
                    chain.join(" → ")
                );
                let hint = "Make a compensation of it a pure counter, or raise flow.compensation.max_depth.";
                faults.push(Fault { chain, ..Fault::new("too_deep", format!("operations.{name}"), message, hint) });
            }
        }
        faults
    }

    fn find_cycles(
        &self,
        step: Step<'a>,
        seen: &mut BTreeMap<&'a str, Seen>,
        path: &mut Vec<Step<'a>>,
        faults: &mut Vec<Fault>,
    ) {
        if faults.len() >= MOST_FAULTS {
            return;
        }
        match seen.get(step.1) {
            Some(Seen::Done) => return,
            Some(Seen::Open) => {
                let from = path.iter().position(|(_, name)| *name == step.1).unwrap_or_default();
                let mut chain = vec![step.1.to_owned()];
                path[from + 1..].iter().chain([&step]).for_each(|step| tell(*step, &mut chain));
                let chain = shortened(chain);
                let message = format!("compensating would never end: {}", chain.join(" → "));
                let hint = "Give the effects of the compensation types of their own, or make it a pure counter.";
                faults.push(Fault { chain, ..Fault::new("cycle", format!("compensations.{}", step.1), message, hint) });
                return;
            }
            None => {}
        }
        seen.insert(step.1, Seen::Open);
        path.push(step);
        for next in self.steps(step.1) {
            self.find_cycles(next, seen, path, faults);
        }
        path.pop();
        seen.insert(step.1, Seen::Done);
    }

    /// How many compensations may follow, at most; there are no cycles.
    fn depth(&self, name: &'a str, longest: &mut BTreeMap<&'a str, usize>) -> usize {
        if let Some(depth) = longest.get(name) {
            return *depth;
        }
        let depth = self.steps(name).into_iter().map(|(_, next)| 1 + self.depth(next, longest)).max().unwrap_or(0);
        longest.insert(name, depth);
        depth
    }

    fn longest_chain(&self, name: &'a str, longest: &BTreeMap<&'a str, usize>) -> Vec<String> {
        let mut chain = vec![name.to_owned()];
        let mut at = name;
        while let Some(step) = self.steps(at).into_iter().max_by_key(|(_, next)| longest.get(next)) {
            tell(step, &mut chain);
            at = step.1;
        }
        shortened(chain)
    }
}

/// The beginning and the end of a chain that nobody would read whole.
fn shortened(mut chain: Vec<String>) -> Vec<String> {
    if chain.len() > LONGEST_CHAIN {
        chain.splice(LONGEST_CHAIN / 2..chain.len() - LONGEST_CHAIN / 2, ["…".to_owned()]);
    }
    chain
}

fn tell(step: Step<'_>, chain: &mut Vec<String>) {
    chain.extend(step.0.map(str::to_owned));
    chain.push(step.1.to_owned());
}
