//! A primary and its standby: what was confirmed is there after a failover, the engine goes on by itself, and what is
//! in shared memory is made anew. One test shows that the checker finds what an asynchronous standby loses. And the network between
//! them and their clients is cut.

mod cut;
mod demo;
mod failover;
mod load;
mod lost;
mod pair;
mod quiet;
