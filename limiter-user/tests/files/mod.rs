//! What the properties of the configuration file are looked for in.

pub mod changes;
pub mod draw;

use std::env;

use proptest::test_runner::{Config, RngSeed};

/// `cases` cases, the same in each ordinary run; `PROPTEST_CASES` asks for others.
pub fn cases(cases: u32) -> Config {
    let default = Config {
        failure_persistence: None,
        max_shrink_time: 20_000,
        ..Config::default()
    };
    if env::var_os("PROPTEST_CASES").is_some() {
        return default;
    }
    Config {
        cases,
        rng_seed: RngSeed::Fixed(0x117e),
        ..default
    }
}
