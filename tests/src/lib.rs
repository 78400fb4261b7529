//! What the black-box tests share: hosts, packets, the program under a clock of the test's own, a
//! model beside it, and the command.
//!
//! A helper that fails panics: its message is what the reader of a failed test needs.

pub mod command;
pub mod engine;
pub mod hosts;
pub mod need;
pub mod packet;
pub mod raw;
