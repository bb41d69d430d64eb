//! Hostile input: whatever anybody sends, the server lives on, its memory stays bounded, and every refusal is a clear
//! error.

mod bounds;
mod bytes;
mod catalog;
mod corpus;
mod deep;
mod fuzz;
mod judge;
mod large;
mod names;
mod options;
mod world;
