//! What the black-box tests share: hosts, packets, the program under a clock of the test's own, a
//! model beside it, and the command.
//!
//! A helper that fails panics: its message is what the reader of a failed test needs.

pub mod command;
pub mod engine;
pub mod foreign;
pub mod hosts;
pub mod need;
pub mod packet;
pub mod raw;
pub mod steps;
pub mod trials;

/// Waits for `condition`: the kernel frees programs, maps and links after a grace period.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..200 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("not within 2 s: {what}");
}

/// A whole number of a JSON document.
#[must_use]
pub fn number(value: &serde_json::Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("a number was wanted: {value}"))
}
