//! The queue room, over real connections with several sessions.

mod enqueue;
