//! `limiter export`: what it says, to whom, and what it bears.

mod figures;
mod http;
mod layout;
mod page;
mod prometheus;
