//! `limiter explain` tells attacks from ordinary traffic, and offers no rule where there is none.

mod generated;
mod live;
mod mixes;
mod price;
mod public;
mod saved;
