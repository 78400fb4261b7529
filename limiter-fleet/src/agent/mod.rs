//! The agent: looks at the tables of this host, exchanges rounds with the store, and charges what other hosts have let
//! through.
//!
//! One thread does all of it. The agent never waits for the store: answers are taken in when they come.

mod answer;
mod attached;
mod connection;
mod exchange;
mod force;
mod lists;
mod members;
mod overlay;
mod pace;
mod place;
mod question;
mod run;

pub use question::{Answer, Edit, Question};
pub use run::{Agent, Options};
