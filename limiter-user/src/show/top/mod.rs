//! The view of `top`: a state, its changes by events, and a picture of the state.
//!
//! State and picture are pure functions: they touch neither terminal nor kernel. The state returns requests as
//! [`Effect`]s, which the command carries out.

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
