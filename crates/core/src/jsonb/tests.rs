//! What is written is read again, number for number.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Tree {
    Leaf(Leaf),
    Array(Vec<Tree>),
    Object(std::collections::BTreeMap<String, Tree>),
}

#[derive(Clone, Debug)]
enum Leaf {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Leaf::Null),
        any::<bool>().prop_map(Leaf::Bool),
        any::<i64>().prop_map(Leaf::Int),
        ".{0,12}".prop_map(Leaf::Text)
    ]
    .prop_map(Tree::Leaf);
    leaf.prop_recursive(4, 256, 80, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..80).prop_map(Tree::Array),
            prop::collection::btree_map("[a-z]{0,5}", inner, 0..40).prop_map(Tree::Object),
        ]
    })
}

fn built(tree: &Tree) -> Result<Vec<u8>, TooLarge> {
    match tree {
        Tree::Leaf(leaf) => root(item(leaf)),
        Tree::Array(items) => {
            let parts: Vec<_> = items.iter().map(built).collect::<Result<_, _>>()?;
            array(parts.iter().map(|part| Container::new(part).item()))
        }
        Tree::Object(map) => {
            let parts: Vec<_> = map.values().map(built).collect::<Result<_, _>>()?;
            let mut members: Vec<_> =
                map.keys().zip(&parts).map(|(key, part)| (key.as_str(), Container::new(part).item())).collect();
            object(&mut members)
        }
    }
}

fn item(leaf: &Leaf) -> Item<'_> {
    match leaf {
        Leaf::Null => Item::Null,
        Leaf::Bool(value) => Item::Bool(*value),
        Leaf::Int(number) => Item::Int(*number),
        Leaf::Text(text) => text.as_str().into(),
    }
}

fn same(item_read: Item<'_>, tree: &Tree) -> bool {
    match (item_read, tree) {
        (Item::Number(bytes), Tree::Leaf(Leaf::Int(number))) => {
            let mut expected = Vec::new();
            number::append_whole(&mut expected, *number);
            bytes == expected
        }
        (found, Tree::Leaf(leaf)) => found == item(leaf),
        (Item::Container(bytes), Tree::Array(items)) => {
            let container = Container::new(bytes);
            container.is_array()
                && container.len() == items.len()
                && container.elements().zip(items).all(|(found, tree)| same(found, tree))
        }
        (Item::Container(bytes), Tree::Object(map)) => {
            let container = Container::new(bytes);
            container.is_object()
                && container.keys().count() == map.len()
                && container
                    .members()
                    .all(|(key, found)| std::str::from_utf8(key).is_ok_and(|key| same(found, &map[key])))
                && map.iter().all(|(key, tree)| container.get(key).is_some_and(|found| same(found, tree)))
                && container.get("no such key").is_none()
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(tree in trees()) {
        let bytes = built(&tree).expect("small");
        prop_assert!(same(Container::new(&bytes).item(), &tree));
    }
}

#[test]
fn a_number_is_in_the_servers_short_form() {
    let form = |number| {
        let mut out = Vec::new();
        number::append_whole(&mut out, number);
        out.chunks(2).skip(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect::<Vec<_>>()
    };
    assert_eq!(form(0), [0x8000]);
    assert_eq!(form(7), [0x8000, 7]);
    assert_eq!(form(-12_345), [0xA001, 1, 2345]);
    assert_eq!(form(50_000), [0x8001, 5]);
    assert_eq!(form(i64::MIN), [0xA004, 922, 3372, 368, 5477, 5808]);
}

/// Numbers as people and programs write them, with what the server would show.
const WRITTEN: [&str; 24] = [
    "0",
    "1",
    "-1",
    "10000",
    "99999999",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "36893488147419103232",
    "0.1",
    "-0.5",
    "1.0",
    "100.10",
    "0.0001",
    "0.00001",
    "12345.678901",
    "1e300",
    "-1e300",
    "1.5e-7",
    "2.2250738585072014e-308",
    "5e-324",
    "1.7976931348623157e308",
    "3.141592653589793",
    "1e22",
];

#[test]
fn a_number_is_kept_as_it_was_parsed() {
    for text in WRITTEN {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let bytes = from_value(&value).unwrap();
        assert_eq!(to_value(Container::new(&bytes).item()), Some(value), "{text}");
    }
}

#[test]
fn a_number_is_shown_as_the_server_shows_it() {
    let shown = |text: &str| {
        let bytes = from_value(&serde_json::from_str(text).unwrap()).unwrap();
        let Item::Number(number) = Container::new(&bytes).item() else { panic!("{text} is a number") };
        Decimal::read(number).unwrap().to_string()
    };
    for text in ["0", "-12345", "100000000", "0.5", "-0.0001", "0.00012", "12345.6789", "1000000.000001"] {
        assert_eq!(shown(text), text);
    }
    assert_eq!(shown("1.5e-7"), "0.00000015");
    assert_eq!(shown("1e22"), "10000000000000000000000");
}

/// Documents as a server of version 15 has them on disk, on a little-endian machine, and their text.
const STORED: [(&str, &str); 16] = [
    ("0", "0100005006000090180000000080"),
    ("-1.5", "010000500a0000902800000080a001008813"),
    ("0.12", "0100005008000090200000007f81b004"),
    ("50000", "01000050080000902000000001800500"),
    ("12345678901234567890.123456789", "0100005016000090580000008484d2042e163423800dd21ed2042e162823"),
    ("1e-20", "0100005008000090200000007b8a0100"),
    ("100.10", "010000500a0000902800000000816400e803"),
    ("-9223372036854775808", "01000050100000904000000004a09a032c0d70016515b016"),
    ("18446744073709551615", "01000050100000904000000004803407581ae102bb034f06"),
    ("1.7976931348623157e308", "01000050120000904800000000004d000100281f6124fe12550c"),
    ("5e-324", "010000500a000090280000004401afff0500"),
    ("1.0", "01000050080000902000000080800100"),
    ("0.00000015", "0100005008000090200000007e840f00"),
    ("-1e300", "010000500a0000902800000000404b000100"),
    ("{}", "00000020"),
    (
        r#"[1, {"a": 0.5, "bb": [true, null, "é"]}]"#,
        "020000400800009032000050200000000080010002000020010000800200000009000010120000506162620020000000ff808813\
         03000040000000b00000004002000000c3a9",
    ),
];

#[test]
#[cfg(target_endian = "little")]
fn what_a_server_has_stored_is_read_as_its_text_and_written_as_it_was() {
    for (text, stored) in STORED {
        let digits: Vec<u8> = stored.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
        let stored: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(to_value(Container::new(&stored).item()), Some(value.clone()), "{text}");
        // A double has fewer digits than the server, and no zeros behind them.
        if !["12345678901234567890.123456789", "100.10"].contains(&text) {
            assert_eq!(from_value(&value).unwrap(), stored, "{text}");
        }
    }
}

#[test]
#[cfg(target_endian = "little")]
fn a_number_may_have_a_short_length_before_it_and_be_none() {
    let short = [0x0D, 0x00, 0x80, 0x2A, 0x00];
    assert_eq!(Decimal::read(&short).and_then(|number| number.whole()), Some(42));
    assert!(Decimal::read(&[0x18, 0, 0, 0, 0x00, 0xC0]).is_none());
}

#[test]
fn a_number_beyond_every_double_is_not_parsed() {
    let mut bytes = (10_u32 << 2).to_ne_bytes().to_vec();
    [0_u16, 100, 1].iter().for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
    if cfg!(target_endian = "little") {
        assert!(!Decimal::read(&bytes).unwrap().is_double());
        assert_eq!(to_value(Item::Number(&bytes)), None);
    }
}

#[test]
fn what_is_large_is_shown_by_its_beginning() {
    let show = |value: serde_json::Value| shown(Container::new(&from_value(&value).unwrap()).item());
    assert_eq!(show(serde_json::json!({"a": [1, "x\n\"", null, true, 0.5]})), r#"{"a":[1,"x\n\"",null,true,0.5]}"#);
    let long = show(serde_json::json!("y".repeat(5_000)));
    assert!(long.starts_with("\"yyy") && long.ends_with("y… (5000 bytes)") && long.len() < 100, "{long}");
    let mut deep = serde_json::json!(1);
    for _ in 0..100 {
        deep = serde_json::json!([deep]);
    }
    assert_eq!(show(deep), format!("{}…{}", "[".repeat(16), "]".repeat(16)));
}

fn values() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e6_f64..1e6).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 200, 50, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..50).prop_map(Value::from),
            prop::collection::btree_map(".{0,5}", inner, 0..40)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn parsed_json_is_written_and_made_again(value in values()) {
        let bytes = from_value(&value).expect("small");
        prop_assert_eq!(to_value(Container::new(&bytes).item()), Some(value));
    }

    #[test]
    fn every_double_is_made_again(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
        let bytes = from_value(&number.into()).expect("small");
        // Whole ones are whole numbers then, as they are in the server's text.
        let made = to_value(Container::new(&bytes).item()).expect("it is readable");
        prop_assert_eq!(made.as_f64(), Some(number));
    }
}
