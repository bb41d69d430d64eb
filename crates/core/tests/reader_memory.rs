//! The memory that reading takes, as the allocator counts it: none for looking, ten times the size for parsing.

#![allow(unsafe_code, reason = "an allocator that counts")]

use agentq_core::Refusal;
use agentq_core::jsonb::{Container, Item, array, from_value, object};
use agentq_core::mission::template::{Outside, Template};
use agentq_core::reader::{Bounds, FREE, Reader, TIMES};
use serde_json::{Value, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NOW.set(NOW.get() + layout.size());
        PEAK.set(PEAK.get().max(NOW.get()));
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.set(NOW.get().saturating_sub(layout.size()));
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the work gives, and how much memory it has held at most.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get() - before)
}

/// A list that has one value this many times.
fn repeated(value: &Value, times: usize) -> Vec<u8> {
    let one = from_value(value).unwrap();
    let item = Container::new(&one).item();
    array((0..times).map(|_| item)).unwrap()
}

/// What a document may be made of.
fn parts() -> [Value; 12] {
    let wide: serde_json::Map<String, Value> = (0..40).map(|n| (format!("k{n}"), json!(n))).collect();
    [
        json!(null),
        json!(0),
        json!(0.5),
        json!(""),
        json!("a"),
        json!("a text of some length, such as there are many"),
        json!([]),
        json!([[0, 1], [2, 3]]),
        json!({}),
        json!({"": null}),
        json!({"id": 7, "ok": true, "name": "x"}),
        Value::Object(wide),
    ]
}

#[test]
fn looking_through_a_document_takes_no_memory() {
    for part in parts() {
        let bytes = repeated(&part, 50_000);
        let (read, memory) = measured(|| {
            let root = Reader::open("p", Container::new(&bytes).item())?;
            Ok::<_, Refusal>(root.elements()?.filter(|item| item.flag().is_ok()).count())
        });
        assert_eq!(read, Ok(0));
        assert!(memory < 10_000, "{memory} bytes for {} of {part}", bytes.len());
    }
}

#[test]
fn parsing_a_document_takes_ten_times_its_size_or_is_refused() {
    let (mut parsed, mut refused) = (0, 0);
    for part in parts() {
        for times in [10, 20_000, 100_000] {
            let bytes = repeated(&part, times);
            let (value, memory) = measured(|| Bounds::DOCUMENT.parse("p", Container::new(&bytes).item()));
            let most = bytes.len() * TIMES + FREE;
            assert!(memory <= most, "{memory} bytes for {} of {part}", bytes.len());
            match value {
                Ok(value) => {
                    parsed += 1;
                    assert_eq!(value.as_array().map(Vec::len), Some(times));
                }
                Err(refusal) => {
                    refused += 1;
                    assert!(memory < 10_000, "{memory} bytes for what is refused: {refusal}");
                }
            }
        }
    }
    assert!(parsed > 25 && refused > 2, "{parsed} {refused}");
}

struct Anything;

impl Outside for Anything {
    fn moment(&self, at: &Reader<'_>) -> Result<(), Refusal> {
        at.text().map(drop)
    }

    fn has_waits(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn needs_key(&self, _: Option<&str>, kind: &str) -> bool {
        kind == "keyed"
    }

    fn path(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn queue(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn params(&self, _: Item<'_>) -> Result<(), Refusal> {
        Ok(())
    }
}

#[test]
fn a_template_of_a_million_steps_is_refused_before_anything_is_kept_of_it() {
    let steps = repeated(&json!({"kind": "x"}), 1_000_000);
    let template = object(&mut [("steps", Item::Container(&steps))]).unwrap();
    let (refused, memory) = measured(|| Template::read(Item::Container(&template), &Anything).err());
    assert!(refused.unwrap().message.contains("at most 20000 steps"));
    assert!(memory < 10_000, "{memory}");
}

#[test]
fn a_template_as_large_as_may_be_is_read_within_ten_times_its_size() {
    let step = |number: usize| {
        let before = number.saturating_sub(1);
        json!({"name": format!("step {number}"), "kind": "draft", "params": {"topic": "bees", "number": number},
            "depends_on": if number == 0 { json!([]) } else { json!([format!("step {before}")]) }})
    };
    let template = json!({"steps": (0..20_000).map(step).collect::<Vec<_>>()});
    let bytes = from_value(&template).unwrap();
    let (read, memory) = measured(|| Template::read(Container::new(&bytes).item(), &Anything).map(|t| t.steps.len()));
    assert_eq!(read, Ok(20_000));
    assert!(memory < bytes.len() * TIMES, "{memory} bytes for {}", bytes.len());
}
