//! Hosts behind a router share limits and lists through PostgreSQL as through Redis, even under faults.

#[path = "../fleet/case.rs"]
mod case;
mod failover;
#[path = "../fleet/faults.rs"]
mod faults;
#[path = "../fleet/shared.rs"]
mod shared;
#[path = "../fleet/shared_lists.rs"]
mod shared_lists;

use limiter_tests::{pooler::in_front, postgres::Postgres as Server};
