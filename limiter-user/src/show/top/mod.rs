//! `top` while it runs: a state, what an event makes of it, and a picture of it.
//!
//! State and picture are functions of what they are given: they touch neither terminal nor kernel. What is to
//! be done is returned as an [`Effect`], and done by the command.

mod action;
pub(in crate::show) mod draw;
mod rates;
mod state;
pub mod terminal;
mod theme;

pub use action::Action;
pub use draw::draw;
pub use state::{Effect, Event, State};
pub use theme::Theme;

#[cfg(test)]
mod tests;
