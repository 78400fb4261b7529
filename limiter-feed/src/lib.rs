//! Feeds keep bans in step with a source: a list in a file or on a web server, or the decisions of CrowdSec.
//!
//! Each round of a [`Feed`] fetches its `source`, and brings the bans of its own origin to the wanted ones, through a
//! [`Host`]. A source that fails leaves its bans in force until they end.

mod change;
mod coverage;
mod crowdsec;
mod feed;
mod host;
pub mod http;
mod left_out;
mod list;
mod parse;
mod protected;
mod retry;
mod settings;
mod socket;
mod source;
mod unconfirmed;
mod wishes;

pub use change::difference;
pub use feed::Feed;
pub use host::{Found, Host, OwnBy, Present, ReadAs, State};
pub use left_out::{LeftOut, Reason};
pub use limiter_lists::Options;
pub use list::{Entries, list};
pub use parse::{bannable, decisions};
pub use protected::Protected;
pub use settings::Settings;
pub use socket::Dial;
pub use source::{Wanted, WantedBan};
