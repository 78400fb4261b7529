//! Files, settings and cases for the properties of the configuration file.

pub mod changes;
pub mod draw;

use std::env;

use proptest::test_runner::{Config, RngSeed};

/// A configuration with `cases` cases, equal in each ordinary run; `PROPTEST_CASES` draws others.
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
