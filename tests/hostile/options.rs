//! Options of the right name and the wrong kind: refused, never passed over. Which options there are, the functions say
//! themselves when they are asked for one that they do not know.

use crate::catalog::{self, Function};
use crate::corpus::{Lexicon, Maker};
use crate::judge;
use crate::world::World;
use agentq_tests::dice::Dice;
use agentq_tests::{Session, database};

/// Options that may be any JSON.
const ANYTHING: [(&str, &str); 1] = [("fn_mission_start", "input")];

/// The options that a function knows, from the hint with which it refuses another.
fn known(s: &mut Session, call: impl Fn(&str) -> String) -> Vec<String> {
    let asked = s.0.simple_query(&format!("BEGIN; {}; ROLLBACK", call("{\"no such option\": 1}")));
    s.run("ROLLBACK");
    let hint = asked.err().and_then(|error| error.as_db_error()?.hint().map(str::to_owned)).unwrap_or_default();
    let list = hint.split_once("It accepts: ").map(|(_, list)| list.trim_end_matches('.')).unwrap_or_default();
    list.split(", ").filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn an_option_of_the_wrong_kind_is_refused_and_not_passed_over() {
    let db = database();
    let mut s = db.session();
    let world = World::new(&mut s);
    s.run("SET statement_timeout = '10s'");
    let lexicon = Lexicon::default();
    let functions: Vec<Function> = catalog::functions(&mut s);
    let (mut tried, mut wrong) = (0, Vec::new());
    for function in functions.iter().filter(|function| function.is_public) {
        let places = function.arguments.iter().enumerate().filter(|(_, argument)| argument.kind == "jsonb");
        for (place, argument) in places {
            // The other arguments are always the same.
            let call = |value: &str| {
                let mut maker = Maker { world: &world, lexicon: &lexicon, dice: &mut Dice::new(5 + place as u64) };
                let arguments = maker.sensible_but(function, place, &format!("'{value}'"));
                format!("SELECT count(*) FROM {}({arguments})", function.qualified())
            };
            let (asked, kinds) = (call("{\"no such option\": 1}"), "[{\"no\": [{}]}]");
            for option in known(&mut s, |_| asked.clone()) {
                if ANYTHING.contains(&(function.name.as_str(), option.as_str())) {
                    continue;
                }
                let statement = call(&format!("{{\"{option}\": {kinds}}}"));
                let what = format!("{}({}: {option})", function.name, argument.name);
                match s.0.simple_query(&format!("BEGIN; {statement}; ROLLBACK")) {
                    Ok(_) => wrong.push(format!("{what} is passed over")),
                    Err(error) => {
                        let Some(error) = error.as_db_error() else { panic!("the session has ended: {statement}") };
                        // Others are refused for what they are about, before their options are looked at.
                        tried += usize::from(error.code().code() == "22023");
                        wrong.extend(judge::unfit(function, error).map(|problem| format!("{what}: {problem}")));
                        s.run("ROLLBACK");
                    }
                }
            }
        }
    }
    println!("{tried} options were refused");
    assert!(tried > 60, "only {tried} options were refused");
    assert!(wrong.is_empty(), "of {tried} options:\n{}", wrong.join("\n"));
}
