//! The network between the load and the server is cut, and nobody is told. Short cuts heal before anybody has given up, and all goes on as
//! if nothing had been; in longer ones both ends lose what they had: sessions end, calls get no answer, leases run out.

use crate::Failure;
use crate::dice::Dice;
use crate::stage::Stage;
use std::time::Duration;

/// From less than a lease to more than anybody waits, in milliseconds.
const SHORTEST: u64 = 500;
const LONGEST: u64 = 8_000;

pub fn strike(stage: &Stage, dice: &mut Dice) -> Result<(), Failure> {
    let net = stage.net.as_ref().ok_or("there is no network of its own")?;
    net.cut(net.node(0), net.node(1));
    std::thread::sleep(Duration::from_millis(SHORTEST + dice.below(LONGEST - SHORTEST)));
    net.heal(net.node(0), net.node(1));
    Ok(())
}
