//! No form of a packet that the host accepts gets a higher rate than the plain form.
//!
//! Random forms (tags, options, extension headers, fragments, odd lengths, LLC and tunnels) are sent to real listeners
//! behind real limits and lists.
//!
//! `LIMITER_SEED=0x... cargo test --test forms` repeats a failure.

use limiter_tests::{forms, need_kernel, random};

/// Rounds: twelve configurations in native and in generic mode.
const ROUNDS: usize = 24;

#[test]
fn no_packet_form_is_admitted_more_often_than_the_plain_form() {
    need_kernel!();
    let seed = random::seed(0x10_f0_25);
    println!("LIMITER_SEED={seed:#x}");
    let report = forms::run(seed, ROUNDS);
    let forms::Report {
        cases,
        accepted,
        wrong,
    } = report;
    println!("{accepted} of {cases} forms accepted by the host");
    for about in wrong.iter().take(3) {
        println!("{about}");
    }
    assert!(
        wrong.is_empty(),
        "{} of {cases} forms, see above",
        wrong.len()
    );
    assert!(3 * accepted > cases, "the host accepts too few: {accepted}");
}
