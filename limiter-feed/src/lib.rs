//! Feeds keep bans in step with a source: a list in a file or on a web server, or the decisions of CrowdSec.
//!
//! Each round of a [`Feed`] fetches its `source`, and brings the bans of its own origin to the wanted ones, through a
//! [`Host`]. A source that fails leaves its bans in force until they end.

mod feed;
pub mod file;
pub mod http;
mod parse;
mod settings;
mod source;

pub use feed::{Edit, Feed, Host, Own, OwnBy, State, difference};
pub use parse::{bannable, decisions, list};
pub use settings::Settings;
pub use source::Wanted;
