//! What the library takes for granted of the server's functions, held to the headers of the server under test.

use crate::sources::files;
use agentq_tests::{major, pg_bin, project_root};
use std::io::Write;
use std::process::{Command, Stdio};

/// The value of a constant of `src/pg/timeouts.rs` for the server under test.
fn constant(name: &str, major: u32) -> i32 {
    let text = std::fs::read_to_string(project_root().join("src/pg/timeouts.rs")).expect("the module");
    let (_, value) = text.split_once(&format!("pub const {name}: i32 = ")).expect("the constant");
    let value = value.split(';').next().unwrap_or_default();
    let value = match value.strip_prefix("if cfg!(") {
        Some(choice) => {
            let (features, values) = choice.split_once(") { ").expect("a condition");
            let (yes, no) = values.split_once(" } else { ").expect("two values");
            if features.contains(&format!("\"pg{major}\"")) { yes } else { no.trim_end_matches(" }") }
        }
        None => value,
    };
    value.parse().expect("a number")
}

fn pg_config(option: &str) -> String {
    let out = Command::new(pg_bin("pg_config")).arg(option).output().expect("pg_config");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

#[test]
fn the_servers_timers_have_the_types_and_places_that_the_library_knows() {
    let version = pg_config("--version");
    let (user, statement) = (constant("USER_TIMEOUT", major()), constant("STATEMENT_TIMEOUT", major()));
    let code = format!(
        "#include \"postgres.h\"
         #include \"utils/timeout.h\"
         _Static_assert(USER_TIMEOUT == {user}, \"USER_TIMEOUT\");
         _Static_assert(STATEMENT_TIMEOUT == {statement}, \"STATEMENT_TIMEOUT\");
         _Static_assert(sizeof(TimeoutId) == 4 && sizeof(bool) == 1, \"sizes\");
         void check(void) {{
             TimeoutId (*a)(TimeoutId, void (*)(void)) = RegisterTimeout;
             void (*b)(TimeoutId, int) = enable_timeout_after;
             void (*c)(TimeoutId, bool) = disable_timeout;
             bool (*d)(TimeoutId, bool) = get_timeout_indicator;
             (void) a; (void) b; (void) c; (void) d;
         }}"
    );
    let mut compiler = Command::new("cc")
        .args(["-fsyntax-only", "-Werror", "-x", "c", "-", "-I"])
        .arg(pg_config("--includedir-server"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a C compiler");
    compiler.stdin.take().expect("its input").write_all(code.as_bytes()).expect("it reads");
    let out = compiler.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{version}: {}", String::from_utf8_lossy(&out.stderr));
}

/// `declared!` holds a declaration to the headers. Two are outside of it: the timers above, and what the C library has.
#[test]
fn functions_of_the_server_are_declared_where_their_types_are_checked() {
    let outside =
        files("src", ".rs").into_iter().filter(|(name, _)| name != "src/pg/timeouts.rs" && name != "src/pg/mod.rs");
    let declared: Vec<String> = outside
        .filter(|(_, text)| text.lines().any(|line| line.starts_with("unsafe extern \"C") && line.ends_with("\" {")))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(declared, ["src/shared/process.rs"]);
}

/// Which version the library is for is asked in one folder.
#[test]
fn only_what_differs_between_versions_asks_which_one_it_is() {
    let asks: Vec<String> = files("src", ".rs")
        .into_iter()
        .filter(|(name, text)| !name.starts_with("src/pg/") && text.contains("feature = \"pg"))
        .map(|(name, _)| name)
        .collect();
    assert!(asks.is_empty(), "{asks:?}");
}
