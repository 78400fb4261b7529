//! No form of a packet that the host accepts gets a higher rate than the plain form.
//!
//! Random forms (tags, options, extension headers, fragments, odd lengths, LLC and tunnels) are sent to real listeners
//! behind real limits and lists.
//!
//! `LIMITER_SEED=0x... cargo xtask test forms` repeats a failure.

use limiter_tests::{forms, need_kernel, random};

/// Rounds: fourteen configurations in native and in generic mode.
const ROUNDS: usize = 28;

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

/// Bytes behind the end of a first fragment, and those that a receiver cuts off, are no TCP flags. Linux drops such
/// fragments of IPv6.
#[test]
fn short_first_fragment_is_charged_to_the_bucket_of_its_port() {
    need_kernel!();
    for length in [8, 14, 15] {
        let [unlimited, plain, in_fragments] = forms::short_first_fragments(length);
        assert_eq!(
            unlimited, 20,
            "the host takes first fragments of {length} bytes"
        );
        assert_eq!(plain, 5, "{length} bytes");
        assert_eq!(in_fragments, 0, "{length} bytes");
    }
}
