//! Each setting accepts its whole documented range, and refuses the next value.

use std::path::Path;

use limiter_user::config::{
    Algorithm, Limit, file,
    names::{interface, name},
};

const ONE: &str = "[[limit]]\nname = \"one\"\nrate = \"5/s\"\nburst = 10\n";

fn is_accepted(text: &str) -> bool {
    file::parse(text, Path::new(".")).is_ok_and(|file| file.settings.check().is_ok())
}

#[test]
fn limit_names_are_bounded() {
    assert!(name(&"a".repeat(32)).is_ok() && name("a-b_c.9").is_ok());
    for wrong in ["", &"a".repeat(33), "a b", "control"] {
        assert!(name(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn interface_names_are_checked() {
    assert!(interface("eth0.7@x-y").is_ok() && interface(&"e".repeat(15)).is_ok());
    let long = "e".repeat(16);
    for wrong in [
        "",
        ".",
        "..",
        "a/b",
        "a:b",
        "a b",
        "a\u{7}b",
        "192.0.2.1",
        &long,
    ] {
        assert!(interface(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn at_most_32_limits_are_accepted() {
    let with = |count: usize| -> String {
        (0..count)
            .map(|i| ONE.replace("one", &format!("l{i}")))
            .collect()
    };
    assert!(is_accepted(&with(32)) && !is_accepted(&with(33)));
}

#[test]
fn table_size_is_bounded() {
    let with = |sources: u64| is_accepted(&format!("max_sources = {sources}\n{ONE}"));
    assert!(with(1) && with(65_536) && !with(0) && !with(u64::from(u32::MAX)));
}

#[test]
fn at_most_30_tiers_are_accepted() {
    let with = |count: usize| {
        let lists: String = (0..count).map(|i| format!("t{i} = []\n")).collect();
        is_accepted(&format!("{ONE}[lists]\n{lists}"))
    };
    assert!(with(30) && !with(31));
}

#[test]
fn costs_and_tcp_flags_are_checked() {
    let with = |line: &str| is_accepted(&format!("{ONE}{line}\n"));
    assert!(with("cost = 1") && with("cost = 10"));
    assert!(!with("cost = 0") && !with("cost = 11"));
    assert!(!is_accepted(
        "[[limit]]\nname = \"one\"\nrate = \"1mbit\"\nburst = \"10kb\"\ncost = 1\n"
    ));
    assert!(with("match = { tcp_flags = \"syn\" }"));
    assert!(!with("match = { protocol = \"udp\", tcp_flags = \"syn\" }"));
}

/// A window gives at least one token, and holds as many as fit into its stored state.
#[test]
fn fixed_window_tokens_are_bounded() {
    let with = |rate: &str, rest: &str| {
        is_accepted(&format!(
            "[[limit]]\nname = \"one\"\nrate = \"{rate}\"\nalgorithm = \"fixed-window\"\n{rest}\n"
        ))
    };
    assert!(with("4294967295/m", "") && !with("4294967296/m", ""));
    assert!(with("5/s", "burst = 4294967295") && !with("5/s", "burst = 4294967296"));
    let large = "burst = \"4294967295b\"";
    assert!(with("8bit", large) && !with("7bit", large));
    assert!(with("34359738367bit", large) && !with("34359738368bit", large));
}

/// A packet costs its length in a limit on bits, and one token in a limit on packets, with either algorithm.
#[test]
fn packet_costs_its_length_or_one_token() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow] {
        let cost = |rate: &str, burst: &str| {
            let limit = Limit {
                burst: Some(burst.parse().unwrap()),
                algorithm,
                ..Limit::new("one", rate.parse().unwrap())
            };
            let quota = limit.quota(1_522).unwrap();
            let whole = quota.in_kernel.cost_of(1_522);
            (quota.in_kernel.tau / whole, quota.in_kernel.tau % whole)
        };
        assert_eq!(cost("8mbit", "15220b"), (10, 0), "{algorithm:?}");
        assert_eq!(cost("5/s", "10"), (10, 0), "{algorithm:?}");
    }
}
