//! Each setting accepts its whole documented range, and refuses the next value.

use std::path::Path;

use limiter_config::{
    Algorithm, Limit, file,
    names::{interface, name},
};

const ONE: &str = "[[limit]]\nname = \"one\"\nrate = \"5/s\"\nburst = 10\n";

fn is_accepted(text: &str) -> bool {
    file::parse(text, Path::new(".")).is_ok_and(|file| file.settings.check().is_ok())
}

#[test]
fn names_are_bounded() {
    assert!(name(&"a".repeat(32)).is_ok() && name("a-b_c.9").is_ok());
    for wrong in ["", &"a".repeat(33), "a b", "control"] {
        assert!(name(wrong).is_err(), "{wrong}");
    }
    assert!(interface("eth0.7@x-y").is_ok() && interface(&"e".repeat(127)).is_ok());
    assert!(interface(&"e".repeat(128)).is_err());
    for wrong in "|.|..|a/b|a:b|a b|a\u{7}b|192.0.2.1".split('|') {
        assert!(interface(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn numbers_of_limits_tiers_and_sources_are_bounded() {
    let limits = |count: usize| -> String {
        let named = |number| ONE.replace("one", &format!("l{number}"));
        (0..count).map(named).collect()
    };
    let tiers = |count: usize| {
        let lists: String = (0..count).map(|i| format!("t{i} = []\n")).collect();
        format!("{ONE}[lists]\n{lists}")
    };
    let sources = |sources: u32| format!("max_sources = {sources}\n{ONE}");
    for (case, text, accepted) in [
        ("32 limits", limits(32), true),
        ("33 limits", limits(33), false),
        ("29 tiers", tiers(29), true),
        ("30 tiers", tiers(30), false),
        ("no source", sources(0), false),
        ("one source", sources(1), true),
        ("65,536 sources", sources(65_536), true),
        ("all sources", sources(u32::MAX), false),
    ] {
        assert_eq!(is_accepted(&text), accepted, "{case}");
    }
}

/// A window gives at least one token, and holds as many as fit into its stored state.
#[test]
fn costs_flags_and_windows_are_bounded() {
    let (buckets, windows) = ("token-bucket", "fixed-window");
    for (accepted, algorithm, rate, rest) in [
        (true, buckets, "5/s", "burst = 10\ncost = 1"),
        (true, buckets, "5/s", "burst = 10\ncost = 10"),
        (false, buckets, "5/s", "burst = 10\ncost = 0"),
        (false, buckets, "5/s", "burst = 10\ncost = 11"),
        (false, buckets, "1mbit", "burst = \"10kb\"\ncost = 1"),
        (true, buckets, "5/s", "match.tcp_flags = \"syn\""),
        (
            false,
            buckets,
            "5/s",
            "match = { protocol = \"udp\", tcp_flags = \"syn\" }",
        ),
        (true, windows, "4294967295/m", ""),
        (false, windows, "4294967296/m", ""),
        (true, windows, "5/s", "burst = 4294967295"),
        (false, windows, "5/s", "burst = 4294967296"),
        (true, windows, "8bit", "burst = \"4294967295b\""),
        (false, windows, "7bit", "burst = \"4294967295b\""),
        (true, windows, "34359738367bit", "burst = \"4294967295b\""),
        (false, windows, "34359738368bit", "burst = \"4294967295b\""),
    ] {
        let limit = format!("name = \"one\"\nrate = \"{rate}\"\nalgorithm = \"{algorithm}\"");
        let text = format!("[[limit]]\n{limit}\n{rest}\n");
        assert_eq!(is_accepted(&text), accepted, "{algorithm}, {rate}, {rest}");
    }
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
