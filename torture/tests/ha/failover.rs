//! The primary is killed under load, twice: the second time it is the one that had taken over.

use crate::load::{DATABASE, Load};
use crate::pair::Pair;
use agentq_tests::eventually;

#[test]
fn confirmed_work_survives_a_failover_and_the_way_back() {
    let mut pair = Pair::new("failover");
    pair.make_synchronous();
    let mut load = Load::prepare("failover", &pair);

    let mut fleet = load.start(&pair);
    load.work(200);
    load.fail_over(&mut pair);
    load.work(200);
    fleet.stop();
    load.assert_nothing_lost(&pair);
    assert_engine_runs(&pair);

    // The old primary comes back while everybody works.
    let mut fleet = load.start(&pair);
    load.work(50);
    pair.rejoin();
    assert_eq!(pair.standby.session(DATABASE).text("SELECT mode FROM agentq.v_engine_status"), "standby");
    pair.make_synchronous();
    load.work(200);
    load.fail_over(&mut pair);
    load.work(200);
    fleet.stop();
    load.assert_nothing_lost(&pair);
    assert_engine_runs(&pair);

    assert_eq!(load.drain(&pair), [], "nothing is left when all is done");
    load.assert_nothing_lost(&pair);
    let events = pair.primary.session(DATABASE).call("fn_event_verify()");
    assert_eq!(events["ok"], true, "the chain of events is whole: {events}");
}

fn assert_engine_runs(pair: &Pair) {
    let mut session = pair.primary.session(DATABASE);
    eventually("the engine runs on the new primary", || {
        session.text("SELECT mode FROM agentq.v_engine_status") == "running"
    });
}
