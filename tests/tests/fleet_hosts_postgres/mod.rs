//! Hosts behind a router share limits and lists through PostgreSQL as through Redis, even under faults.

#[path = "../fleet/case.rs"]
mod case;
mod failover;
#[path = "../fleet/faults.rs"]
mod faults;
#[path = "../fleet/lists.rs"]
mod lists;
#[path = "../fleet/shared.rs"]
mod shared;

use limiter_tests::postgres::Postgres as Server;
