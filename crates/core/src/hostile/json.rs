//! Arbitrary JSON for every parser that takes some, and what must hold for what is accepted.

use super::{Anything, assert_clear, spoilt, texts, values};
use crate::effects::Manifest;
use crate::jsonb::{self, Container, Item};
use crate::mission::template::{Spec, Template};
use crate::mission::{params, plan};
use crate::policy::{self, WorkerPolicy};
use crate::reaction::{self, Matrix};
use crate::reader::{Member, Reader, document};
use crate::{canonical, config, event, payload, proposal, replay, steps};
use proptest::prelude::*;
use serde_json::{Value, json};

fn template() -> Value {
    json!({"title": "t", "cancellation_mode": "graceful", "timeout_seconds": 60, "risk_level": "low", "steps": [
        {"name": "a", "kind": "k", "params": {"x": 1}, "on_failure": "continue"},
        {"name": "b", "kind": "k", "on_failure": {"goto": "oops"}, "retry": {"max_attempts": 3}, "priority": 7},
        {"name": "c", "kind": "k", "depends_on": ["a", {"step": "b", "status": "ended"}], "join": {"quorum": 1},
         "when": "$.a.ok == true", "for_each": {"in": "$.b.list", "join": "any"}, "params": {"u": {"$from": "$item"}}},
        {"name": "oops", "kind": "k"},
        {"name": "sub", "mission": {"steps": [{"kind": "x"}], "sequential": true}}]})
}

fn manifest() -> Value {
    json!({"operations": {"a": {"produces": ["x.do"], "requires_compensation": true}},
        "compensations": {"u": {"of": "a", "produces": ["x.undo"], "counter_effects": true, "max_attempts": 3}},
        "inverse_of": {"x.do": "x.undo"}, "idempotent": {"x.do": true}})
}

fn matrix() -> Value {
    json!([{"id": "a", "type": ["user:*"], "tags": {"any": ["x"], "all": ["y"]}, "source": "web*", "when": "$.n > 1",
        "probability": 0.5, "cooldown_seconds": 5, "dedupe": "u:{$.u}:{$.v}!",
        "template": {"steps": [{"kind": "k", "params": {"who": {"$event": "$.who"}}}]}}])
}

fn options(value: &Value) -> Reader<'static> {
    Reader::at("p_options", document(value))
}

/// A spec as it is read again.
fn kept(spec: &Spec) -> Spec {
    Spec::from_jsonb(Container::new(&spec.to_jsonb().expect("small")).item())
}

/// Any JSON, or one that is nearly right.
fn near(sensible: Value) -> impl Strategy<Value = Value> {
    prop_oneof![1 => values(), 3 => spoilt(sensible)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_template_is_read_or_refused(value in near(template())) {
        if let Some(template) = assert_clear(Template::read(document(&value), &Anything)) {
            // Each step comes after all that it waits for, and what is kept of it is read again as it was.
            let order = template.order();
            let place = |step: usize| order.iter().position(|other| *other == step);
            for (number, step) in template.steps.iter().enumerate() {
                prop_assert!(step.parents.iter().all(|parent| place(parent.step) < place(number)));
                prop_assert!(step.need >= 0 && step.need as usize <= step.parents.len());
                if let Some(spec) = &step.spec {
                    prop_assert_eq!(&kept(spec), &**spec);
                }
            }
            prop_assert_eq!(plan::anew(&template, 0, &vec![true; template.steps.len()]).len(), template.steps.len());
        }
    }

    #[test]
    fn what_is_kept_of_a_step_is_read_whatever_it_is(value in values()) {
        let spec = Spec::from_jsonb(document(&value));
        prop_assert_eq!(kept(&spec), spec);
    }

    #[test]
    fn parameters_are_searched_and_filled(value in values()) {
        let paths = params::paths(document(&value));
        let filled = params::filled(&value, &|path| json!(path));
        // Without a reference nothing changes.
        if paths.is_empty() && params::each_reference(&Reader::at("params", document(&value)), &mut |_, _| Ok(())).is_ok() {
            prop_assert_eq!(filled, value);
        }
    }

    #[test]
    fn a_manifest_is_read_or_refused_and_written_as_it_was_read(value in near(manifest())) {
        if let Some(read) = assert_clear(Manifest::read(&options(&value))) {
            prop_assert_eq!(&Manifest::read(&options(&read.to_value())).expect("what was written"), &read);
            for fault in read.faults(2) {
                prop_assert!(!fault.message.is_empty() && !fault.hint.is_empty() && !fault.path.is_empty());
            }
        }
    }

    #[test]
    fn policies_are_accepted_or_refused(value in values(), key in prop::sample::select(policy::KNOWN.to_vec())) {
        assert_clear(policy::check(key, document(&value)));
    }

    #[test]
    fn policies_that_are_nearly_right_are_refused_by_their_path(
        value in spoilt(json!({"daily_limit": 3, "per_source": {"api": 1}, "max_steps": 2,
            "hook": {"function": "ops.gate", "role": "g"}}))
    ) {
        if let Err(refusal) = policy::check(policy::PROPOSAL_CAPS, document(&value)) {
            prop_assert!(refusal.message.starts_with("proposal_caps"), "{}", refusal);
        }
    }

    #[test]
    fn patterns_are_read_or_refused_by_their_path(value in near(matrix()), kind in texts(), data in values()) {
        match Matrix::read(document(&value)) {
            Err(refusal) => prop_assert!(refusal.message.starts_with("reaction_matrix"), "{}", refusal),
            Ok(matrix) => {
                let fitting = matrix.fitting(&kind, &["x".to_owned(), "y".to_owned()], Some("web")).count();
                prop_assert!(fitting <= matrix.patterns.len());
                for pattern in &matrix.patterns {
                    pattern.paths();
                    assert_clear(reaction::resolve(&pattern.template, &mut |_| Ok(data.clone())));
                }
            }
        }
    }

    #[test]
    fn a_proposal_is_looked_through_whatever_it_holds(value in near(template()), answer in values()) {
        let kinds = proposal::step_kinds(&value);
        prop_assert!(proposal::step_count(&value) >= 0);
        assert_clear(proposal::risk(&value, Member::from(Some(options(&answer)))));
        let filled = proposal::mission_template(&value, &WorkerPolicy::read(document(&json!({}))).expect("the default"));
        // What the policy adds asks for no other work.
        prop_assert_eq!(proposal::step_kinds(&filled), kinds);
        proposal::hook_verdict("a.b", Some(&answer)).ok();
    }

    #[test]
    fn options_are_read_or_refused(value in values()) {
        let options = options(&value);
        assert_clear(event::Options::read(&options));
        assert_clear(event::Filter::read(&options));
        assert_clear(steps::Options::read(&options, &steps::Options::KEYS));
        for key in config::tests::KEYS {
            assert_clear(key.check(Some(options.clone())));
        }
    }

    #[test]
    fn a_value_is_what_one_asks_for_or_is_refused_by_its_path(value in values()) {
        let at = options(&value);
        let refused = [
            at.map().err(), at.text().err(), at.name(20).err(), at.flag().err(), at.whole(0..=9).err(),
            at.number(0.0..=1.0).err(), at.word(&["a", "b"]).err(), at.names(3, 5).err(),
            at.list("names", 1..=3).err(), at.elements().err(), at.value().err(), at.object(&["a"]).err(),
        ];
        for refusal in refused.into_iter().flatten() {
            prop_assert!(refusal.message.starts_with("p_options"), "{}", refusal);
            assert_clear::<()>(Err(refusal));
        }
        prop_assert_eq!(at.flag().ok(), value.as_bool());
        prop_assert_eq!(at.text().ok(), value.as_str());
        if value.is_i64() {
            prop_assert_eq!(at.whole(i64::MIN..=i64::MAX).ok(), value.as_i64());
        }
        prop_assert_eq!(at.number(f64::MIN..=f64::MAX).ok(), value.as_f64());
        prop_assert_eq!(at.is_object(), value.is_object());
        prop_assert_eq!(at.elements().ok().map(|list| list.len()), value.as_array().map(Vec::len));
    }

    #[test]
    fn a_checkpoint_of_any_shape_can_be_replayed_from(value in values(), step in texts()) {
        for from in [replay::From::Beginning, replay::From::LastCheckpoint, replay::From::Step(&step)] {
            assert_clear(replay::plan(&from, Some(document(&value)), &[], true));
        }
    }

    #[test]
    fn every_value_has_a_hash_that_tells_it_from_others(one in values(), other in values()) {
        let (inputs, others) = (steps::Inputs::of(document(&one)), steps::Inputs::of(document(&other)));
        prop_assert_eq!(inputs.hash.len(), 64);
        prop_assert_eq!(inputs.hash == others.hash, canonical::text(document(&one)) == canonical::text(document(&other)));
        assert_clear::<()>(Err(inputs.refuse_changed("the step \"a\"", &others.hash, others.members.as_ref())));
    }

    #[test]
    fn a_denied_key_is_found_wherever_it_stands_among_others(
        keys in prop::collection::btree_set(texts(), 0..80),
        denied in prop::sample::select(payload::DENIED_KEYS.to_vec())
    ) {
        let members = |more: Option<&'static str>| -> Vec<u8> {
            let keys = keys.iter().map(String::as_str).filter(|key| Some(*key) != more);
            let mut members: Vec<(&str, Item<'_>)> = keys.chain(more).map(|key| (key, Item::Bool(true))).collect();
            jsonb::object(&mut members).expect("small")
        };
        prop_assert_eq!(payload::denied_key(Container::new(&members(Some(denied)))), Some(denied));
        prop_assert_eq!(payload::denied_key(Container::new(&members(None))), None);
    }
}
