//! `limiter agent`: looks at the tables of this network namespace, exchanges rounds with the store, and charges
//! what other hosts have let through.
//!
//! One thread does all of it. The store is never waited for: what it answers is taken in when it comes.

mod answer;
pub mod ask;
pub mod attached;
mod compare;
mod connection;
mod exchange;
mod force;
mod lists;
mod pace;
mod place;
mod reading;
mod run;
mod survey;

pub use run::{Options, run};
