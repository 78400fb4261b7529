//! Chooses how often tests repeat what chance decides.

/// Environment variable: if set, tests repeat as often as before a release.
const THOROUGH: &str = "LIMITER_THOROUGH";

/// The number of repetitions: `usual`, or `thorough` with `cargo xtask test --thorough`.
pub fn repetitions<N>(usual: N, thorough: N) -> N {
    match std::env::var_os(THOROUGH) {
        Some(_) => thorough,
        None => usual,
    }
}
