//! A standby that is not waited for may lack what was confirmed. The checker finds that, as it would elsewhere.

use crate::load::Load;
use crate::pair::Pair;
use agentq_tests::eventually;
use agentq_torture::check::Rule;

#[test]
fn what_an_asynchronous_standby_lacks_is_found_to_be_lost() {
    let mut pair = Pair::new("lost");
    let mut load = Load::prepare("lost", &pair);
    let mut fleet = load.start(&pair);
    load.work(50);

    let mut standby = pair.standby.session("postgres");
    standby.run("ALTER SYSTEM SET primary_conninfo = ''");
    standby.run("SELECT pg_reload_conf()");
    eventually("the standby receives nothing any more", || standby.count("pg_stat_wal_receiver") == 0);
    load.work(100);
    fleet.stop();
    load.assert_nothing_lost(&pair);

    drop(standby);
    pair.fail_over();
    let problems = load.problems(&pair);
    for rule in [Rule::NothingLost, Rule::Final, Rule::AttemptsAddUp] {
        assert!(problems.iter().any(|problem| problem.rule == rule), "{rule:?} is broken, but not in {problems:#?}");
    }
}
