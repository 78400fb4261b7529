//! Hosts behind a router share limits and lists through a store, even under faults.

mod bans;
mod case;
mod changes;
mod faults;
mod shared;
mod shared_lists;

use limiter_tests::{pooler::Pooler, redis::Redis as Server};

/// No pooler stands in front of Redis.
fn in_front(_: &Server<'_>) -> Option<Pooler> {
    None
}
