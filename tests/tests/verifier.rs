//! Each program of the objects stays far below the verifier's limit of a million instructions (since Linux 5.2).
//!
//! The tests use the most expensive configurations. `cargo xtask test --kernels` prints the figures of several kernels.

use std::path::Path;

use aya::{EbpfLoader, programs::Xdp};
use limiter_common::{
    abi::{CLOCK_KERNEL, NEXT_FALLBACK, NEXT_FOREIGN},
    arithmetic::rescale::PAST_QUOTAS,
};
use limiter_config::Settings;
use limiter_kernel::{
    program::{
        object,
        object::{ListMaps, Maps},
    },
    sys::requirements,
};
use limiter_tests::{
    engine::constants, largest, need, need_kernel, settings, verified_instructions,
    verified_instructions_of,
};

/// Maximum for one limit with all proofs, which compare addresses with the host's routes. Linux 6.1 processes 125,517.
const ONE: u32 = 140_000;

/// Maximum for several limits. Linux 6.1 processes 304,720. The kernel's own maximum is 1,000,000.
/// The functions that check a limit are verified once, and the rest grows with three loops over the limits.
const SEVERAL: u32 = 330_000;

/// One limit on every packet.
fn one_limit() -> Settings {
    settings(
        "exempt = [\"established\"]\n[[limit]]\nname = \"one\"\nkey = \"/32,/128\"\nrate = \"10mbit\"\nburst = \"1mb\"\nproof = [\"syn-cookie\", \"dns-tc\", \"a2s\"]\n",
    )
}

/// The maximum number of limits, with lists.
fn several() -> Settings {
    settings(&largest::file(
        "allow = [\"192.0.2.0/24\"]\ndeny = [\"2001:db8::/32\"]\ngold = [\"198.51.100.0/24\"]\nsilver = []\n",
    ))
}

fn check(name: &str, verified: Option<u32>, bound: u32) {
    // Linux before 5.16 does not report the number.
    let Some(verified) = verified else { return };
    println!("verified {name} {verified}");
    assert!((100..bound).contains(&verified), "{name}: {verified}");
}

fn entries_of(settings: &Settings, bound: u32) {
    let has_frags = requirements::has_frags();
    let (mut config, prefixes) = constants(settings, CLOCK_KERNEL);
    // Buckets of an earlier epoch take the more expensive path.
    for limit in &mut config.limits {
        limit.epoch = PAST_QUOTAS;
        limit.past_length = PAST_QUOTAS;
    }
    // The program is chained, and has a deadline.
    (config.chained, config.deadline) = (1, 1);
    let proof = config.proof;
    let mut variants = vec![
        (false, false, false, NEXT_FALLBACK[0]),
        (false, false, has_frags, NEXT_FOREIGN),
    ];
    if need::tcx() {
        variants.push((true, false, false, NEXT_FALLBACK[0]));
        variants.push((true, true, false, NEXT_FALLBACK[0]));
    }
    for (tc, no_ethernet, frags, after) in variants {
        (config.tc, config.no_ethernet) = (tc.into(), no_ethernet.into());
        config.after_deadline = after;
        config.proof = if tc { 0 } else { proof };
        let lists = ListMaps::New(&prefixes);
        let program = object::load(&config, Maps::New, lists, frags).unwrap();
        check(program.entry(), verified_instructions(&program), bound);
    }
}

#[test]
fn program_for_one_limit_is_verified() {
    need_kernel!();
    entries_of(&one_limit(), ONE);
}

#[test]
fn program_for_several_limits_and_lists_is_verified() {
    need_kernel!();
    entries_of(&several(), SEVERAL);
}

#[test]
fn learn_program_is_verified() {
    need_kernel!();
    let has_frags = requirements::has_frags();
    let object = Path::new(env!("CARGO_MANIFEST_DIR")).join("../limiter-ebpf/prebuilt");
    let object = object.join(if cfg!(target_endian = "little") {
        "learn.bpfel.o"
    } else {
        "learn.bpfeb.o"
    });
    let mut ebpf = EbpfLoader::new().btf(None).load_file(object).unwrap();
    for name in ["learn", "learn_frags"] {
        if name.ends_with("_frags") && !has_frags {
            continue;
        }
        let program: &mut Xdp = ebpf.program_mut(name).unwrap().try_into().unwrap();
        program.load().unwrap();
        check(name, verified_instructions_of(program.fd().unwrap()), ONE);
    }
}
