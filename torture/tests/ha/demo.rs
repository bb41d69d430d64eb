//! `make ha-demo`: Patroni, etcd, and a kill -9 of the leader. Where they are missing this test fails and says so.

use agentq_tests::project_root;
use std::process::{Command, Stdio};

#[test]
fn the_demonstration_ends_well() {
    let mut demo = Command::new(project_root().join("scripts/ha-demo"));
    demo.env("AGENTQ_TORTURE", env!("CARGO_BIN_EXE_agentq-torture")).stdin(Stdio::null());
    let out = demo.output().expect("the demonstration starts");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    println!("{text}");
    assert!(out.status.success(), "{}:\n{text}", out.status);
    // On a busy machine Patroni may have changed the roles before: then it is the other one that is killed.
    let (down, back, new) = if text.contains("kill -9 of one") {
        ("one is down, two leads", "one follows and is waited for, two leads", "two")
    } else {
        ("one leads, two is down", "one leads, two follows and is waited for", "one")
    };
    for told in [
        "one leads, two follows and is waited for",
        "kill -9 of ",
        down,
        &format!("The engine runs on {new}"),
        back,
        " confirmed acks, ",
        ": 0 problems",
        "Verdict: nothing lost, nothing done twice.",
    ] {
        assert!(text.contains(told), "it does not say {told:?}:\n{text}");
    }
}
