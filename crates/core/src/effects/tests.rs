//! Tests of manifests and effects.

use super::*;
use crate::reader::{Reader, document};
use crate::words::listed;
use proptest::prelude::*;
use serde_json::json;

fn reader(value: &Value) -> Reader<'static> {
    Reader::nameless("the manifest", document(value))
}

fn manifest(document: Value) -> Manifest {
    Manifest::read(&reader(&document)).unwrap()
}

/// The codes of all faults.
fn codes(document: Value) -> Vec<&'static str> {
    manifest(document).faults(2).into_iter().map(|fault| fault.code).collect()
}

fn hotel() -> Value {
    json!({
        "operations": {"book_hotel": {"produces": ["hotel.book"], "requires_compensation": true}},
        "compensations": {"cancel_hotel": {"of": "book_hotel", "produces": ["hotel.cancel"], "counter_effects": true}},
        "inverse_of": {"hotel.book": "hotel.cancel"},
    })
}

#[test]
fn a_pure_counter_is_sound_and_counters_the_effect_whose_inverse_it_produces() {
    let hotel = manifest(hotel());
    assert_eq!(hotel.faults(2), []);
    assert_eq!(hotel.compensation_for("book_hotel", "hotel.book"), Some("cancel_hotel"));
    assert_eq!(hotel.compensation_for("book_hotel", "hotel.other"), None);
    assert_eq!(hotel.operation_of_kind("book_hotel").map(|(name, _)| name), Some("book_hotel"));
}

#[test]
fn what_requires_a_compensation_has_one_for_each_of_its_effects() {
    let none = json!({"operations": {"a": {"produces": ["x"], "requires_compensation": true}}});
    assert_eq!(codes(none), ["missing_compensation"]);
    let mut half = hotel();
    half["operations"]["book_hotel"]["produces"] = json!(["hotel.book", "mail.send"]);
    let faults = manifest(half).faults(2);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].message.contains("none for \"mail.send\""), "{faults:?}");
    let several = json!({
        "operations": {"a": {"produces": ["x"], "requires_compensation": true}},
        "compensations": {"one": {"of": "a"}, "two": {"of": "a"}},
    });
    assert_eq!(codes(several.clone()), ["missing_compensation"]);
    let named =
        manifest(several).changed(&reader(&json!({"operations": {"a": {"produces": ["x"], "compensation": "two"}}})));
    assert_eq!(named.unwrap().compensation_for("a", "x"), Some("two"));
}

#[test]
fn unknown_and_doubled_names_are_found() {
    assert_eq!(codes(json!({"compensations": {"c": {"of": "nobody"}}})), ["unknown_operation"]);
    assert_eq!(codes(json!({"operations": {"a": {"compensation": "c"}}})), ["unknown_compensation"]);
    assert_eq!(codes(json!({"inverse_of": {"x": "y"}})), ["unknown_effect", "unknown_effect"]);
    assert_eq!(codes(json!({"idempotent": {"x": true}})), ["unknown_effect"]);
    let wrong = json!({"operations": {"a": {"compensation": "c"}, "b": {}}, "compensations": {"c": {"of": "b"}}});
    assert_eq!(codes(wrong), ["wrong_compensation"]);
    let twice = json!({"operations": {"a": {}, "b": {}}, "compensations": {"a": {"of": "b"}}});
    assert_eq!(codes(twice), ["duplicate_name"]);
    let kinds = json!({"operations": {"a": {"job_kind": "k"}, "b": {"job_kind": "k"}}});
    assert_eq!(codes(kinds), ["duplicate_job_kind"]);
}

#[test]
fn a_pure_counter_produces_inverses_and_nothing_else() {
    let mut document = hotel();
    document["compensations"]["cancel_hotel"]["produces"] = json!(["hotel.cancel", "mail.send"]);
    let faults = manifest(document).faults(2);
    assert_eq!((faults.len(), faults[0].code), (1, "not_inverse"));
    assert_eq!(faults[0].chain, ["book_hotel", "cancel_hotel", "mail.send"]);
    let mut empty = hotel();
    empty["compensations"]["cancel_hotel"]["produces"] = json!([]);
    assert!(codes(empty).contains(&"not_inverse"));
}

#[test]
fn cycles_are_found_by_name_and_through_effects() {
    let by_name = json!({"compensations": {"a": {"of": "b"}, "b": {"of": "a"}}});
    let faults = manifest(by_name).faults(2);
    assert_eq!((faults.len(), faults[0].code), (1, "cycle"));
    assert_eq!(faults[0].chain, ["a", "b", "a"]);
    // A correction is a mail, which is to be corrected by a mail.
    let through = json!({
        "operations": {"notify": {"produces": ["mail.send"]}},
        "compensations": {"correct": {"of": "notify", "produces": ["mail.send"]}},
    });
    let faults = manifest(through).faults(2);
    assert_eq!((faults.len(), faults[0].code), (1, "cycle"));
    assert_eq!(faults[0].chain, ["correct", "mail.send", "correct"]);
    // To create is undone by deleting, and to delete by creating: neither is new work.
    let pair = json!({
        "operations": {"create": {"produces": ["x.create"]}, "delete": {"produces": ["x.delete"]}},
        "compensations": {
            "uncreate": {"of": "create", "produces": ["x.delete"], "counter_effects": true},
            "undelete": {"of": "delete", "produces": ["x.create"], "counter_effects": true},
        },
        "inverse_of": {"x.create": "x.delete", "x.delete": "x.create"},
    });
    assert_eq!(codes(pair.clone()), Vec::<&str>::new());
    let mut impure = pair;
    impure["compensations"]["uncreate"]["counter_effects"] = json!(false);
    impure["compensations"]["undelete"]["counter_effects"] = json!(false);
    assert_eq!(codes(impure), ["cycle"]);
}

#[test]
fn chains_have_a_greatest_depth() {
    let document = json!({
        "operations": {"pay": {"produces": ["pay"]}, "mail": {"produces": ["mail"]}},
        "compensations": {"refund": {"of": "pay", "produces": ["mail"]}, "correct": {"of": "mail", "produces": ["note"]},
            "last": {"of": "correct"}},
    });
    assert_eq!(manifest(document.clone()).faults(3), []);
    let faults = manifest(document).faults(2);
    assert_eq!((faults.len(), faults[0].code, faults[0].path.as_str()), (1, "too_deep", "operations.pay"));
    assert_eq!(faults[0].chain, ["pay", "refund", "mail", "correct", "last"]);
    let refusal = Fault::refusal(&faults).unwrap();
    assert!(refusal.message.contains("pay → refund → mail → correct → last") && refusal.hint.contains("max_depth"));
}

#[test]
fn what_cannot_be_read_is_named_with_its_path() {
    for (document, message) in [
        (json!([]), "the manifest must be a JSON object"),
        (json!({"operation": {}}), "unknown key \"operation\""),
        (json!({"operations": {"a": {"produce": []}}}), "operations.a has the unknown key \"produce\""),
        (json!({"operations": {"a": {"produces": "x"}}}), "operations.a.produces must be a list"),
        (json!({"operations": {"a": {"produces": ["x", 7]}}}), "operations.a.produces[1] must be a text, not 7"),
        (json!({"operations": {"a": {"requires_compensation": 1}}}), "operations.a.requires_compensation must be true"),
        (json!({"operations": {" ": {}}}), "a name in operations must not be empty"),
        (json!({"compensations": {"c": {}}}), "compensations.c.of must be a text, not null"),
        (json!({"compensations": {"c": {"of": "a", "max_attempts": 0}}}), "compensations.c.max_attempts must be"),
        (json!({"inverse_of": {"x": 1}}), "inverse_of.x must be a text"),
        (json!({"idempotent": {"x": "yes"}}), "idempotent.x must be true or false"),
    ] {
        let refusal = Manifest::read(&reader(&document)).unwrap_err();
        assert!(refusal.message.contains(message), "{document}: {refusal}");
        assert!(!refusal.hint.is_empty());
    }
}

#[test]
fn a_null_takes_an_entry_out() {
    let out = json!({"compensations": {"cancel_hotel": null}, "inverse_of": {"hotel.book": null}});
    assert_eq!(manifest(hotel()).changed(&reader(&out)).unwrap().faults(2)[0].code, "missing_compensation");
    let all = json!({"operations": {"book_hotel": null}, "compensations": {"cancel_hotel": null}, "inverse_of": {"hotel.book": null}});
    assert_eq!(manifest(hotel()).changed(&reader(&all)).unwrap(), Manifest::default());
}

#[test]
fn the_schema_has_the_same_words() {
    let schema = include_str!("../../../../sql/flow/effect.sql");
    assert_eq!(listed(schema, "CONSTRAINT effect_status_check"), Status::NAMES);
    assert_eq!(listed(schema, "CONSTRAINT effect_chain_status_check"), ChainStatus::NAMES);
    for status in ChainStatus::ALL {
        assert_eq!(ChainStatus::parse(status.name()), Some(*status));
    }
}

#[test]
fn an_effect_is_never_run_blindly_twice() {
    use Status::*;
    for status in Status::ALL.iter().copied() {
        assert_eq!(Status::parse(status.name()), Some(status));
        for (same, idempotent) in [(false, false), (false, true), (true, false), (true, true)] {
            let expected = match (status, same, idempotent) {
                (Planned | Failed, ..) => Begin::Run { again: false },
                (Succeeded, ..) => Begin::Done,
                (Executing, true, _) => Begin::InProgress,
                (Executing, false, true) => Begin::Run { again: true },
                (Executing, false, false) => Begin::UnknownOutcome,
                _ => Begin::Undone,
            };
            assert_eq!(begin(status, same, idempotent), expected);
        }
    }
}

#[test]
fn drift_goes_both_ways() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let declared = ["a".to_owned(), "b".to_owned()];
    let found = drift(&declared, &set(&["a", "c"]), &set(&["a"]), true);
    assert_eq!(found, [(Drift::Undeclared, "c".to_owned()), (Drift::Missing, "b".to_owned())]);
    assert_eq!(drift(&declared, &set(&["a"]), &set(&[]), false), []);
    assert_eq!(drift(&declared, &set(&["a", "b"]), &set(&["a", "b"]), true), []);
}

proptest! {
    /// A chain whose compensations each name the one before has no cycle, and exactly its own depth.
    #[test]
    fn a_chain_is_as_deep_as_it_is_long(length in 0_usize..12, allowed in 1_usize..12) {
        let mut document = json!({"operations": {"n0": {"produces": ["e0"]}}, "compensations": {}});
        for number in 1..=length {
            document["compensations"][format!("n{number}")] =
                json!({"of": format!("n{}", number - 1), "produces": [format!("e{number}")]});
        }
        let faults = manifest(document).faults(allowed);
        prop_assert_eq!(faults.iter().map(|fault| fault.code).collect::<Vec<_>>(),
            if length > allowed { vec!["too_deep"] } else { vec![] });
        if let Some(fault) = faults.first() {
            prop_assert_eq!(fault.chain.len(), length + 1);
        }
    }

    /// Closing such a chain anywhere makes a cycle, and only cycles are told of then.
    #[test]
    fn a_chain_that_leads_back_is_a_cycle(length in 1_usize..12, back in 0_usize..12) {
        let back = back % length + 1;
        let mut document = json!({"operations": {}, "compensations": {}});
        for number in 1..=length {
            let of = if number == back { length } else if number == 1 { continue } else { number - 1 };
            document["compensations"][format!("n{number}")] = json!({"of": format!("n{of}")});
        }
        document["operations"]["n1"] = if back == 1 { Value::Null } else { json!({}) };
        let faults = manifest(document).faults(100);
        prop_assert_eq!(faults.iter().filter(|fault| fault.code == "cycle").count(), 1, "{:?}", faults);
    }

    /// Whatever it holds, a manifest that is written out is read as the same.
    #[test]
    fn a_manifest_survives_being_written(names in proptest::collection::btree_set("[a-z]{1,6}", 0..8), flags in any::<u8>()) {
        let mut one = Manifest::default();
        for (number, name) in names.iter().enumerate() {
            let flag = flags >> (number % 8) & 1 == 1;
            let produces = vec![format!("{name}.do")];
            if flag {
                one.idempotent.insert(format!("{name}.do"));
            }
            let operation = Operation { produces: produces.clone(), requires_compensation: flag, compensation: None, job_kind: name.clone() };
            one.operations.insert(name.clone(), operation);
            let compensation = Compensation { of: name.clone(), produces, job_kind: name.clone(), max_attempts: flag.then_some(3), ..Default::default() };
            one.compensations.insert(format!("un{name}"), compensation);
        }
        prop_assert_eq!(Manifest::read(&reader(&one.to_value())).unwrap(), one);
    }
}

#[test]
fn a_catalog_that_asks_for_more_than_the_runtime_has_is_refused() {
    let read = |requires: serde_json::Value| Manifest::read(&reader(&json!({"requires": requires})));
    let able = read(json!(["QUEUES", "DURABLE_STEPS"])).unwrap();
    assert_eq!(able.faults(2), []);
    assert_eq!(able.to_value()["requires"], json!(["DURABLE_STEPS", "QUEUES"]));
    let faults = read(json!(["SAGA_COMPENSATION_NATIVE"])).unwrap().faults(2);
    assert_eq!((faults.len(), faults[0].code), (1, "missing_capability"));
    assert!(read(json!(["TELEPATHY"])).unwrap_err().message.contains("TELEPATHY"));
}
