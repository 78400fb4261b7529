//! The arithmetic of buckets, as pure functions of state, time and cost.
//!
//! [`bucket`] and [`window`] are the two kinds of buckets. A [`quota`] holds the compiled numbers of one limit, and
//! [`rescale`] carries a bucket over to another quota.

pub mod bucket;
pub mod quota;
pub mod rescale;
pub mod scale;
pub mod size;
pub mod window;
