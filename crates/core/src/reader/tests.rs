//! What is read, what is refused, and in which words.

use super::*;
use serde_json::json;

fn at(value: Value) -> Reader<'static> {
    Reader::at("p_options", document(&value))
}

#[test]
fn what_does_not_fit_is_named_by_its_path() {
    let root = at(json!({"a": [{"b": "x"}], "c": null}));
    assert!(!root.member("c").is_there() && !root.member("d").is_there());
    for key in ["c", "d"] {
        assert_eq!(root.needed(key).text().unwrap_err().message, format!("p_options.{key} must be a text, not null"));
    }
    let items: Vec<Reader<'_>> = root.member("a").reader().unwrap().list("objects", 1..=9).unwrap().collect();
    let refusal = items[0].member("b").whole(0..=5).unwrap_err();
    assert_eq!(refusal.message, "p_options.a[0].b must be a whole number from 0 to 5, not \"x\"");
    assert_eq!(refusal.hint, "Give p_options.a[0].b a whole number from 0 to 5, or leave it out.");
    assert_eq!(items[0].member("b").names(1, 9).unwrap().unwrap(), ["x"]);
    assert_eq!(items[0].refuse("there is none", "Make one.").message, "p_options.a[0]: there is none");
    let nameless = Reader::nameless("a job", document(&json!({"priority": true})));
    assert_eq!(nameless.member("priority").text().unwrap_err().message, "priority must be a text, not true");
    assert_eq!(nameless.object(&["queue"]).unwrap_err().message, "a job has the unknown key \"priority\"");
}

#[test]
fn an_object_has_no_keys_but_known_ones_and_lists_them() {
    let refusal = at(json!({"a": 1, "colour": 2})).object(&["a", "b"]).unwrap_err();
    assert_eq!(
        (refusal.message.as_str(), refusal.hint.as_str()),
        ("p_options has the unknown key \"colour\"", "It accepts: a, b.",)
    );
    let refusal = at(json!([])).object(&["a", "b"]).unwrap_err();
    assert_eq!(refusal.message, "p_options must be a JSON object, not an array");
    assert!(refusal.hint.ends_with("It accepts: a, b."));
    assert_eq!(at(json!([])).hint("Do.").object(&[]).unwrap_err().hint, "Do.");
    assert!(Reader::empty("p_options").object(&[]).is_ok());
}

#[test]
fn what_may_be_carried_by_a_job_or_is_secret_is_not_shown() {
    for hidden in [json!("hush"), json!(["hush"])] {
        assert!(!at(hidden).map().unwrap_err().message.contains("hush"));
    }
    let options = at(json!({"lease_token": "hush", "list": ["hush"]}));
    let refusal = options.member("lease_token").secret().parsed("a uuid", |_| None::<()>).unwrap_err();
    assert_eq!(refusal.message, "p_options.lease_token must be a uuid, not this");
    let list = options.member("list").secret().reader().unwrap();
    assert!(list.elements().unwrap().all(|item| !item.flag().unwrap_err().message.contains("hush")));
}

#[test]
fn numbers_keep_to_their_bounds_and_kinds() {
    assert_eq!(at(json!(3)).whole(0..=5_i32), Ok(3));
    assert_eq!(at(json!(2.5)).number(0.0..=5.0), Ok(2.5));
    assert_eq!(at(json!(2)).seconds(0.0..=5.0), Ok(2.0));
    for bad in [json!(-1), json!(6), json!(2.5), json!(2.0), json!("3"), json!(true), json!(1e300), json!(u64::MAX)] {
        let refusal = at(bad.clone()).whole(0..=5_i64).unwrap_err();
        assert!(refusal.message.contains("a whole number from 0 to 5"), "{bad}: {refusal}");
    }
    for bad in [json!(-0.1), json!(5.1), json!("3"), json!(null)] {
        assert!(at(bad.clone()).seconds(0.0..=5.0).unwrap_err().message.contains("seconds from 0 to 5"), "{bad}");
    }
}

#[test]
fn words_and_lists_say_what_they_accept() {
    let mode = at(json!("soon"));
    assert_eq!(mode.word(&["now", "soon"]), Ok("soon"));
    let refusal = mode.word(&["now", "never"]).unwrap_err();
    assert_eq!(refusal.message, "p_options must be one of now, never, not \"soon\"");
    assert_eq!(refusal.hint, "Use one of: now, never.");
    for (lengths, words) in [(1..=3, "a list of 1 to 3 names"), (0..=3, "a list of at most 3 names")] {
        let refusal = mode.list("names", lengths).err().unwrap();
        assert_eq!(refusal.message, format!("p_options must be {words}, not \"soon\""));
    }
    assert_eq!(mode.elements().err().unwrap().message, "p_options must be a list, not \"soon\"");
    assert!(at(json!([1, 2, 3, 4])).list("numbers", 1..=3).is_err());
    assert_eq!(at(json!(["a", " "])).names(3, 9).unwrap_err().message.split(" must").next(), Some("p_options[1]"));
}

#[test]
fn a_document_is_bounded_in_bytes_elements_and_depth() {
    let bounds = Bounds { bytes: 1_000, elements: 10, depth: 3 };
    let check = |value: Value| bounds.check("p", document(&value)).map_err(|refusal| refusal.message);
    assert_eq!(check(json!({"a": [[1, 2]], "b": "x"})), Ok(()));
    assert_eq!(check(json!([[[[]]]])), Err("p cannot be read: it is nested more than 3 levels deep".to_owned()));
    for many in [json!(vec![0; 11]), json!([vec![0; 5], vec![0; 5]])] {
        assert_eq!(check(many).unwrap_err(), "p has more than the 10 elements that are read");
    }
    let long = check(json!(["x".repeat(1_000)])).unwrap_err();
    assert!(long.starts_with("p is 10") && long.ends_with("more than the 1000 that are read"), "{long}");
    assert!(check(json!("x".repeat(1_001))).is_err());
}

#[test]
fn a_document_goes_as_deep_as_the_parser_of_answers_does() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deepest: Value = serde_json::from_str(&nested(Bounds::DOCUMENT.depth)).unwrap();
    assert_eq!(Bounds::DOCUMENT.parse("p", document(&deepest)), Ok(deepest.clone()));
    assert!(serde_json::from_str::<Value>(&nested(Bounds::DOCUMENT.depth + 1)).is_err());
    let refusal = Bounds::DOCUMENT.check("p", document(&json!([deepest]))).unwrap_err();
    assert!(refusal.message.contains("cannot be read") && refusal.hint.contains("128 levels"), "{refusal:?}");
}

#[test]
fn what_rust_cannot_read_is_refused() {
    let mut large = (10_u32 << 2).to_ne_bytes().to_vec();
    [0_u16, 100, 1].iter().for_each(|word| large.extend_from_slice(&word.to_ne_bytes()));
    for (item, words) in [(Item::Number(&large), "number in it is too large"), (Item::Text(b"\xff"), "not in UTF-8")] {
        let list = jsonb::array([item].into_iter()).unwrap();
        let refusal = Reader::open("p", Item::Container(&list)).unwrap_err();
        assert!(refusal.message.starts_with("p cannot be read") && refusal.message.contains(words), "{refusal}");
    }
}

#[test]
fn many_small_objects_are_looked_through_and_not_parsed() {
    let members: Vec<Value> = (0..100_000).map(|n| json!({"a": n})).collect();
    let item = document(&json!(members));
    let root = Reader::open("p", item).unwrap();
    assert_eq!(root.elements().unwrap().len(), 100_000);
    let refusal = root.value().unwrap_err();
    assert!(refusal.message.contains("when it is parsed") && !refusal.hint.is_empty(), "{refusal}");
    // What fits into a payload of the default size is parsed, whatever it is.
    let smallest = json!({"": null});
    let list: Vec<Value> = (0..262_144 / 16).map(|_| smallest.clone()).collect();
    assert!(Bounds::DOCUMENT.parse("p", document(&json!(list))).is_ok());
}
