//! What a template may say, and how one is told that it may not.

use super::template::{MOST_STEPS, Outside, Spec, Template, Wait};
use crate::Refusal;
use crate::jsonb::{Container, Item};
use crate::reader::{Reader, document};
use serde_json::{Value, json};

pub struct Anything;

impl Outside for Anything {
    fn needs_key(&self, _: Option<&str>, kind: &str) -> bool {
        kind == "keyed"
    }

    fn path(&self, path: &str) -> Result<(), String> {
        if path.contains("!!") { Err("syntax error at or near \"!\"".to_owned()) } else { Ok(()) }
    }

    fn moment(&self, at: &Reader<'_>) -> Result<(), Refusal> {
        if at.text()?.starts_with("2030") { Ok(()) } else { Err(at.must_be("a moment")) }
    }

    fn has_waits(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn queue(&self, queue: &str) -> Result<(), Refusal> {
        if queue == "nowhere" { Err(Refusal::new("there is no queue \"nowhere\"", "Make it.")) } else { Ok(()) }
    }

    fn params(&self, params: Item<'_>) -> Result<(), Refusal> {
        let Item::Container(bytes) = params else { panic!("parameters are an object") };
        if Container::new(bytes).get("token").is_some() {
            Err(Refusal::new("no secrets", "Leave them out."))
        } else {
            Ok(())
        }
    }
}

fn read(value: Value) -> Template<'static> {
    Template::read(document(&value), &Anything).unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[track_caller]
fn refused(value: Value, message: &str) {
    let refusal = Template::read(document(&value), &Anything).expect_err("this should be refused");
    assert!(refusal.message.starts_with(message), "{refusal}");
    assert!(!refusal.hint.is_empty());
}

#[test]
fn steps_without_dependencies_begin_together_and_a_sequence_one_after_the_other() {
    let steps = json!([{"kind": "a"}, {"kind": "b"}, {"name": "c", "kind": "c"}]);
    let parallel = read(json!({"steps": steps}));
    assert_eq!(parallel.steps.iter().map(|s| s.level).collect::<Vec<_>>(), [0, 0, 0]);
    assert_eq!(parallel.steps[1].name, "step_2");
    let sequence = read(json!({"steps": steps, "sequential": true, "title": "t"}));
    assert_eq!(sequence.steps.iter().map(|s| s.level).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(sequence.steps[2].parents[0].step, 1);
    assert!(sequence.steps.iter().all(|step| step.spec.is_none()));
}

#[test]
fn a_step_is_read_with_all_it_may_say() {
    let template = read(json!({"title": "t", "cancellation_mode": "compensate_then_stop", "timeout_seconds": 60,
        "risk_level": "low", "effects": [], "steps": [
        {"name": "a", "kind": "ka", "params": {"x": 1}, "executor": "noop", "on_failure": "continue", "effects": {}},
        {"name": "b", "kind": "kb", "on_failure": {"goto": "oops"}},
        {"name": "c", "kind": "kc", "depends_on": ["a", {"step": "b", "status": "ended"}], "join": {"quorum": 2},
         "when": "$.a.ok == true", "for_each": {"in": "$.b.list", "join": "any"}, "params": {"u": {"$from": "$item"}},
         "timeout_seconds": 2.5, "retry": {"max_attempts": 3}, "queue": "mail", "priority": 7},
        {"name": "oops", "kind": "ko"},
        {"name": "sub", "mission": {"steps": [{"kind": "x"}]}}]}));
    let [a, b, c, oops, sub] = template.steps.as_slice() else { panic!("five steps") };
    assert!(!a.fails_mission && !b.fails_mission && c.fails_mission);
    assert_eq!((c.need, c.parents.len(), c.level), (2, 2, 1));
    let spec = c.spec.clone().unwrap();
    assert_eq!(spec.reads, ["a", "b"]);
    assert_eq!((spec.items_needed, spec.max_attempts, spec.priority), (Some(1), Some(3), Some(7)));
    let kept = spec.to_jsonb().unwrap();
    assert_eq!(Spec::from_jsonb(Container::new(&kept).item()), *spec);
    assert_eq!(
        (oops.need, oops.parents[0].step, oops.parents[0].required),
        (1, 1, crate::mission::status::Required::Failed)
    );
    assert_eq!(sub.kind, "mission");
    read(json!({"steps": [{"kind": "k", "when": "$.input.go == true", "params": {"a": {"$from": "$.input.a"}}}]}));
    assert_eq!((template.mode, template.timeout_seconds), ("compensate_then_stop", Some(60.0)));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let two = |second: Value| json!({"steps": [{"name": "a", "kind": "k"}, second]});
    for (value, message) in [
        (json!([]), "a template must be a JSON object, not an array"),
        (json!({}), "steps must be a list of steps"),
        (json!({"steps": []}), "steps: there is no step"),
        (json!({"steps": [{"kind": "k"}], "titel": 1}), "a template has the unknown key \"titel\""),
        (json!({"steps": [{"kind": "k"}], "title": 1}), "title must be a text, not 1"),
        (
            json!({"steps": [{"kind": "k"}], "cancellation_mode": "soon"}),
            "cancellation_mode must be one of graceful, compensate_then_stop, not \"soon\"",
        ),
        (json!({"steps": [{"kind": "k"}], "timeout_seconds": 0}), "timeout_seconds must be a number of seconds"),
        (json!({"steps": [3]}), "steps[0] must be a JSON object, not 3"),
        (json!({"steps": [{}]}), "steps[0].kind: the step has no kind"),
        (json!({"steps": [{"kind": " "}]}), "steps[0].kind must not be empty"),
        (json!({"steps": [{"name": "", "kind": "k"}]}), "steps[0].name must not be empty"),
        (two(json!({"name": "a", "kind": "k"})), "steps[1].name: \"a\" is also the name of steps[0]"),
        (two(json!({"kind": "k", "dependson": []})), "steps[1] has the unknown key \"dependson\""),
        (two(json!({"kind": "k", "depends_on": "a"})), "steps[1].depends_on must be a list"),
        (two(json!({"kind": "k", "depends_on": ["drft"]})), "steps[1].depends_on[0]: there is no step \"drft\""),
        (two(json!({"kind": "k", "depends_on": ["a", "a"]})), "steps[1].depends_on[1]: \"a\" is named twice"),
        (two(json!({"name": "b", "kind": "k", "depends_on": ["b"]})), "steps[1].depends_on[0]: \"b\" waits for itself"),
        (
            two(json!({"kind": "k", "depends_on": [{"step": "a", "status": "done"}]})),
            "steps[1].depends_on[0].status must be one of",
        ),
        (
            two(json!({"kind": "k", "depends_on": [{"steps": "a"}]})),
            "steps[1].depends_on[0] has the unknown key \"steps\"",
        ),
        (two(json!({"kind": "k", "join": "any"})), "steps[1].join: there is nothing to join"),
        (
            two(json!({"kind": "k", "depends_on": ["a"], "join": "some"})),
            "steps[1].join must be all, any or an object with a quorum, not \"some\"",
        ),
        (
            two(json!({"kind": "k", "depends_on": ["a"], "join": {"quorum": 2}})),
            "steps[1].join: a quorum of 2 is never reached",
        ),
        (
            two(json!({"kind": "k", "when": "$.a !! 1", "depends_on": ["a"]})),
            "steps[1].when: \"$.a !! 1\" is not an SQL/JSON path",
        ),
        (two(json!({"kind": "k", "when": "$.b > 1"})), "steps[1].when: there is no step \"b\""),
        (two(json!({"kind": "k", "when": "$.a > 1"})), "steps[1]: it reads the result of \"a\""),
        (
            two(json!({"kind": "k", "depends_on": [{"step": "a", "status": "failed"}]})),
            "steps[1]: it waits for the failure of \"a\", which ends the mission",
        ),
        // Whichever of the two ends first, the other may still be under way.
        (
            json!({"steps": [{"name": "a", "kind": "k"}, {"name": "b", "kind": "k"},
                {"kind": "k", "depends_on": ["a", "b"], "join": "any", "when": "$.a.x > 1"}]}),
            "steps[2]: it reads the result of \"a\", which need not have ended before it",
        ),
        (
            json!({"steps": [{"name": "a", "kind": "k"}, {"name": "b", "kind": "k"}, {"name": "c", "kind": "k", "depends_on": ["a"]},
                {"kind": "k", "depends_on": ["a", "b", "c"], "join": {"quorum": 2}, "params": {"x": {"$from": "$.b"}}}]}),
            "steps[3]: it reads the result of \"b\", which need not have ended before it",
        ),
        // A step that is skipped ends before the other of which it asked.
        (
            json!({"steps": [{"name": "a", "kind": "k"}, {"name": "b", "kind": "k", "on_failure": "continue"},
                {"name": "c", "kind": "k", "depends_on": ["a", "b"]},
                {"kind": "k", "depends_on": [{"step": "c", "status": "ended"}], "when": "$.a.x > 1"}]}),
            "steps[3]: it reads the result of \"a\", which need not have ended before it",
        ),
        (two(json!({"kind": "k", "when": "$ > 1"})), "steps[1].when: the path \"$ > 1\" does not name"),
        (two(json!({"kind": "k", "when": "$item > 1"})), "steps[1].when: there is no variable $item"),
        (two(json!({"kind": "k", "params": []})), "steps[1].params must be a JSON object"),
        (two(json!({"kind": "k", "params": {"token": 1}})), "steps[1].params: no secrets"),
        (two(json!({"kind": "k", "params": {"l": [{"$from": 1}]}})), "steps[1].params.l[0].$from must be a path"),
        (
            two(json!({"kind": "k", "params": {"l": {"$from": "1 + 2"}}})),
            "steps[1].params.l.$from: this refers to nothing",
        ),
        (json!({"steps": [{"name": "input", "kind": "k"}]}), "steps[0].name: no step can be named input"),
        (two(json!({"kind": "k", "for_each": {"join": "all"}})), "steps[1].for_each.in: there is no path"),
        (two(json!({"kind": "k", "queue": "nowhere"})), "steps[1].queue: there is no queue"),
        (two(json!({"kind": "k", "priority": -1})), "steps[1].priority must be a whole number"),
        (two(json!({"kind": "k", "retry": {"max": 1}})), "steps[1].retry has the unknown key \"max\""),
        (two(json!({"kind": "k", "on_failure": 7})), "steps[1].on_failure must be one of fail, continue, not 7"),
        (two(json!({"kind": "k", "on_failure": {"goto": "x"}})), "steps[1].on_failure.goto: there is no step \"x\""),
        (two(json!({"kind": "k", "mission": {"steps": [{"kind": "x", "join": 1}]}})), "steps[1].mission.steps[0].join"),
        (
            json!({"sequential": true, "steps": [{"kind": "k"}, {"kind": "k", "depends_on": []}]}),
            "steps[1].depends_on: the steps of a sequential mission have no depends_on",
        ),
        (
            json!({"sequential": true, "steps": [{"kind": "k", "on_failure": {"goto": "b"}}, {"kind": "k", "name": "b"}]}),
            "steps[0].on_failure.goto: \"b\" waits for another step already",
        ),
    ] {
        refused(value, message);
    }
}

#[test]
fn a_cycle_is_told_step_by_step() {
    let step = |name: &str, parent: &str| json!({"name": name, "kind": "k", "depends_on": [parent]});
    let value =
        json!({"steps": [{"name": "z", "kind": "k"}, step("a", "c"), step("b", "a"), step("c", "b"), step("d", "c")]});
    refused(value, "steps[1]: these steps wait for each other: b → c → a → b");
    // Through a failure, too.
    refused(
        json!({"steps": [{"name": "a", "kind": "k", "depends_on": ["b"], "on_failure": {"goto": "b"}}, {"name": "b", "kind": "k"}]}),
        "steps[0]: these steps wait for each other",
    );
}

#[test]
fn there_is_a_bound_for_steps_and_for_nesting() {
    let many: Vec<Value> = (0..=MOST_STEPS).map(|_| json!({"kind": "k"})).collect();
    refused(json!({"steps": many}), "steps: a mission has at most 20000 steps");
    let mut deep = json!({"steps": [{"kind": "k"}]});
    for _ in 0..9 {
        deep = json!({"steps": [{"name": "s", "mission": deep}]});
    }
    refused(deep, "steps[0].mission.steps[0].mission");
}

#[test]
fn a_step_may_read_what_has_ended_whichever_of_its_parents_come_first() {
    let sound = [
        // Both come behind a.
        json!({"steps": [{"name": "a", "kind": "k"}, {"name": "b", "kind": "k", "depends_on": ["a"]}, {"name": "c", "kind": "k", "depends_on": ["a"]},
            {"kind": "k", "depends_on": ["b", "c"], "join": "any", "when": "$.a.x > 1"}]}),
        // Two of three are at least one of those behind a, or a itself.
        json!({"steps": [{"name": "a", "kind": "k"}, {"name": "b", "kind": "k"}, {"name": "c", "kind": "k", "depends_on": ["a"]},
            {"kind": "k", "depends_on": ["a", "b", "c"], "join": {"quorum": 2}, "params": {"x": {"$from": "$.a"}}}]}),
        // It is skipped only when the one that it waits for has ended.
        json!({"steps": [{"name": "a", "kind": "k", "on_failure": "continue"}, {"name": "b", "kind": "k", "depends_on": ["a"]},
            {"kind": "k", "depends_on": [{"step": "b", "status": "ended"}], "when": "$.a.x > 1"}]}),
    ];
    sound.into_iter().for_each(|template| drop(read(template)));
}

#[test]
fn a_mission_whose_steps_need_a_key_needs_one_itself() {
    let within = json!({"steps": [{"kind": "a"}, {"name": "in", "mission": {"steps": [{"kind": "keyed"}]}}]});
    for (template, at) in
        [(json!({"steps": [{"kind": "a"}, {"kind": "keyed"}]}), "steps[1]"), (within, "steps[1].mission.steps[0]")]
    {
        let document = document(&template);
        let read = Template::read(document, &Anything).unwrap();
        let refusal = read.check_key(None).unwrap_err();
        assert!(refusal.message.starts_with(at) && refusal.hint.contains("idempotency_key"), "{refusal:?}");
        assert_eq!(read.check_key(Some("k")), Ok(()));
    }
    let plain = json!({"steps": [{"kind": "a"}]});
    assert_eq!(Template::read(document(&plain), &Anything).unwrap().check_key(None), Ok(()));
}

#[test]
fn what_is_for_people_has_a_bound() {
    let step = |description: usize| json!({"kind": "a", "description": "x".repeat(description)});
    read(json!({"title": "t".repeat(1_000), "description": "d".repeat(20_000), "steps": [step(20_000)]}));
    refused(json!({"title": "t".repeat(1_001), "steps": [step(1)]}), "title is 1001 bytes, more than the 1000 allowed");
    refused(json!({"description": "d".repeat(20_001), "steps": [step(1)]}), "description is 20001 bytes");
    refused(json!({"steps": [step(20_001)]}), "steps[0].description is 20001 bytes");
}

#[test]
fn a_step_without_a_worker_keeps_what_it_waits_for() {
    let template = read(
        json!({"steps": [{"name": "a", "sleep": {"seconds": 5}}, {"name": "b", "sleep": {"until": "2030-01-01"}},
        {"name": "c", "signal": "go"}, {"name": "d", "depends_on": ["a"], "signal": {"name": "go", "key": "$.a.until"}}]}),
    );
    let waits: Vec<Option<Wait>> = template.steps.iter().map(|step| step.spec.as_ref().unwrap().wait.clone()).collect();
    let signal = |key: &str| Some(Wait::Signal { name: "go".to_owned(), key: key.to_owned() });
    let until = Some(Wait::Until("2030-01-01".to_owned()));
    assert_eq!(waits, [Some(Wait::Sleep(5.0)), until, signal(""), signal("$.a.until")]);
    let kinds: Vec<&str> = template.steps.iter().map(|step| step.kind.as_str()).collect();
    assert_eq!(kinds, ["sleep", "sleep", "signal", "signal"]);
    for step in &template.steps {
        let spec = step.spec.as_deref().unwrap();
        let kept = spec.to_jsonb().unwrap();
        assert_eq!(Spec::from_jsonb(Container::new(&kept).item()), *spec);
    }
}
