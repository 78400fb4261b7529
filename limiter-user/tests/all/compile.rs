//! Settings compile to the right constants of the program, field by field.

use std::path::Path;

use limiter_common::{
    abi::{
        Constants,
        rules::{
            NEEDS_CONTROL, NEEDS_DESTINATION, NEEDS_DESTINATION_LISTS, NEEDS_EXCEPT, NEEDS_HEADER,
            NEEDS_PAIR, NEEDS_PAYLOAD, NEEDS_TRANSPORT, NEEDS_VRRP,
        },
    },
    table::key::{BY_DESTINATION, BY_FLOW, BY_PAIR, KeyMask},
};
use limiter_config::{Settings, TierBits, file, slot::Slot};
use limiter_kernel::state::record::Record;
use limiter_user::plan::replay::Compiled;

const FRAME_MAX: u64 = 1_522;

fn settings(text: &str) -> Settings {
    let file = file::parse(text, Path::new("."));
    file.unwrap_or_else(|error| panic!("{text}: {error:?}"))
        .settings
}

fn slot(number: u32) -> Slot {
    Slot {
        name: String::new(),
        number,
        phase: 0,
        epoch: 0,
        past: Vec::new(),
    }
}

/// Compiles with slots for the limits from `first` on.
fn compiled_from(first: u32, text: &str) -> Box<Constants> {
    let settings = settings(text);
    let slots: Vec<_> = (first..)
        .zip(settings.all_limits())
        .map(|(number, _)| slot(number))
        .collect();
    let bits = TierBits::default().for_settings(&settings).0;
    let config = settings.compile(&slots, &bits, FRAME_MAX);
    config.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn compiled(text: &str) -> Box<Constants> {
    compiled_from(0, text)
}

/// The constants take about 100 KB, and helper threads have 2 MiB: no caller may pass them by value.
#[test]
fn settings_compile_on_a_small_stack() {
    const STACK: usize = 768 << 10;
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(|| {
        let record = Record {
            settings: settings(ONE),
            limits: vec![slot(0)],
            frame_max: FRAME_MAX,
            ..Record::default()
        };
        let trial = record.trial_config(Some(&record)).unwrap();
        let compiled = Compiled::new(&record.settings).unwrap();
        drop(compiled.model(1));
        trial.limits_length
    });
    assert_eq!(thread.unwrap().join().unwrap(), 1);
}

const ONE: &str = "[[limit]]\nname = \"one\"\nrate = \"5/s\"\nburst = 10\n";

#[test]
fn each_switch_sets_only_its_own_flags() {
    let config_with = |line: &str| compiled(&format!("{line}\n{ONE}"));
    assert_eq!(config_with("shadow = true").shadow, 1);
    assert_eq!(config_with("malformed = \"pass\"").malformed_passes, 1);
    let established = config_with("exempt = [\"established\"]");
    assert_eq!((established.established, established.control), (1, 0));
    assert_eq!(established.fast_path, 1);
    let control = config_with("exempt = [\"control\"]");
    assert_eq!((control.established, control.control), (0, 1));
    assert_eq!(control.needs, NEEDS_TRANSPORT | NEEDS_CONTROL);
    assert_eq!(control.fast_path, 0);
    let vrrp = config_with("exempt = [\"vrrp\"]");
    assert_eq!((vrrp.control, vrrp.fast_path), (0, 0));
    assert_eq!(vrrp.needs, NEEDS_TRANSPORT | NEEDS_VRRP);
    for (lists, expected) in [
        ("deny = [\"192.0.2.0/24\"]", (1, 0)),
        ("allow = [\"2001:db8::/32\"]", (0, 1)),
        ("tier = [\"192.0.2.0/24\", \"2001:db8::/32\"]", (1, 1)),
    ] {
        let config = compiled(&format!("{ONE}[lists]\n{lists}\n"));
        assert_eq!((config.lists_ipv4, config.lists_ipv6), expected, "{lists}");
        assert_eq!(config.fast_path, 0, "{lists}");
    }
}

#[test]
fn control_traffic_limits_come_last() {
    let compiled_with = |control: &str| {
        let text = format!("exempt = [\"control\"]\n{control}{ONE}");
        let names: Vec<_> = settings(&text)
            .all_limits()
            .into_iter()
            .map(|limit| limit.name)
            .collect();
        (compiled(&text), names)
    };
    let (config, names) = compiled_with("");
    assert_eq!(names, ["one", "control", "control-total"]);
    assert_eq!(config.limits_length, 3);
    assert_eq!(config.candidates.control[..3], [0b001, 0b110, 0b100]);
    assert_eq!(config.limits[2].mask, KeyMask::interface());

    let (config, names) = compiled_with("[control]\ntotal = \"none\"\n");
    assert_eq!(names, ["one", "control"]);
    assert_eq!(config.candidates.control[..3], [0b01, 0b10, 0]);
}

/// The fast path is for a single limit that holds everything, drops, and has the first slot.
#[test]
fn fast_path_is_only_for_one_unconditional_limit() {
    assert_eq!(compiled_from(1, ONE).fast_path, 0, "another slot");
    for line in [
        "shadow = true",
        "match = { protocol = \"udp\" }",
        "key = \"/32,/64,destination_port\"",
        "key = \"destination\"",
        "key = \"source + destination\"",
        "key = \"flow\"",
        "key = \"source,vlan\"",
        "match = { vlan = 20 }",
    ] {
        let text = format!("{ONE}{line}\n");
        assert_eq!(compiled(&text).fast_path, 0, "{line}");
    }
    let two = format!("{ONE}{}", ONE.replace("one", "two"));
    assert_eq!(compiled(&two).fast_path, 0);
}

#[test]
fn key_with_a_destination_compiles_to_its_masks_and_needs() {
    let whole = KeyMask::prefixes(32, 128);
    let pair_of = |source: KeyMask, destination: KeyMask| KeyMask {
        by: BY_PAIR,
        destination_ipv4: destination.ipv4,
        destination_ipv6: destination.ipv6,
        ..source
    };
    let by_destination = |mask: KeyMask| KeyMask {
        by: BY_DESTINATION,
        link_local: 0,
        ..mask
    };
    let hosts = pair_of(KeyMask::prefixes(32, 64), whole);
    let (destination, pair, ports) = (NEEDS_DESTINATION, NEEDS_PAIR, NEEDS_TRANSPORT);
    for (key, mask, needs) in [
        ("destination", by_destination(whole), destination),
        (
            "destination/24,/48",
            by_destination(KeyMask::prefixes(24, 48)),
            destination,
        ),
        ("source + destination", hosts, destination | pair),
        (
            "source/24,/48 + destination/16,/32",
            pair_of(KeyMask::prefixes(24, 48), KeyMask::prefixes(16, 32)),
            destination | pair,
        ),
        (
            "source + destination + destination_port",
            KeyMask { port: 1, ..hosts },
            destination | pair | ports,
        ),
        (
            "flow",
            KeyMask {
                by: BY_FLOW,
                ..pair_of(whole, whole)
            },
            destination | pair | ports,
        ),
    ] {
        let config = compiled(&format!("{ONE}key = \"{key}\"\n"));
        assert_eq!(
            (config.limits[0].mask, config.needs),
            (mask, needs),
            "{key}"
        );
    }
}

#[test]
fn transport_header_is_read_only_if_a_match_needs_it() {
    let config_with = |matches: &str| compiled(&format!("{ONE}match = {{ {matches} }}\n"));
    for matches in [
        "protocol = \"udp\"",
        "destination_port = 22",
        "source_port = 53",
        "tcp_flags = \"syn\"",
        "fragments = true",
        "fragments = false",
        "length = 60",
    ] {
        assert_eq!(config_with(matches).needs, NEEDS_TRANSPORT, "{matches}");
    }
    assert_eq!(config_with("ip_version = 4").needs, 0);
    let (header, destination) = (NEEDS_TRANSPORT | NEEDS_HEADER, NEEDS_DESTINATION);
    for (matches, needs) in [
        ("ttl = 64", header),
        ("dscp = \"ef\"", header),
        ("icmp_type = 8", header),
        (
            "destination = \"192.0.2.1\"",
            destination | NEEDS_DESTINATION_LISTS,
        ),
        (
            "payload = { bytes = \"00\" }",
            NEEDS_TRANSPORT | NEEDS_PAYLOAD,
        ),
        ("not = { ttl = 1 }", header | NEEDS_EXCEPT),
        ("not = { ip_version = 4 }", NEEDS_EXCEPT),
    ] {
        assert_eq!(config_with(matches).needs, needs, "{matches}");
    }
}

#[test]
fn table_has_room_for_max_sources() {
    for (sources, sets) in [(1, 2), (4, 2), (5, 4), (65_536, 32_768)] {
        let config = compiled(&format!("max_sources = {sources}\n{ONE}"));
        assert_eq!(config.sets, sets, "{sources}");
    }
}

#[test]
fn new_source_lease_size_depends_on_the_burst() {
    let new_sources = |lines: &str| compiled(&format!("{lines}\n{ONE}")).new_sources;
    let by_default = new_sources("");
    assert_eq!(by_default.lease, 64);
    assert_eq!(by_default.cost, (1_000_000_000 << 8) / 10_000);
    assert_eq!(by_default.tau, by_default.cost * 65_536);
    let few = new_sources("new_sources = \"100/s\"\nnew_sources_burst = 4096");
    assert_eq!((few.lease, few.tau), (4, few.cost * 4_096));
    assert_eq!(
        new_sources("new_sources = \"100/s\"\nnew_sources_burst = 5").lease,
        1
    );
    let none = new_sources("new_sources = \"none\"");
    assert_eq!((none.cost, none.lease), (0, 1));
}

#[test]
fn limit_with_one_bucket_takes_no_share_of_new_sources() {
    let limit = |name: &str, key: &str| {
        format!("[[limit]]\nname = \"{name}\"\nkey = \"{key}\"\nrate = \"5/s\"\n")
    };
    let (control, no_total) = ("exempt = [\"control\"]\n", "[control]\ntotal = \"none\"\n");
    let [hosts, networks, all] =
        [("a", "/32,/64"), ("b", "/24,/48"), ("c", "interface")].map(|(n, k)| limit(n, k));
    let ports = limit("d", "interface,destination_port");
    for (text, parts) in [
        (format!("{hosts}{networks}"), 2),
        (format!("{hosts}{networks}{all}"), 2),
        (format!("{hosts}{networks}{ports}"), 3),
        (format!("{hosts}{all}"), 2),
        (format!("{control}{hosts}"), 2),
        (format!("{control}{hosts}{no_total}"), 2),
        (format!("{control}{hosts}{networks}"), 3),
    ] {
        let new_sources = compiled(&text).new_sources;
        assert_eq!(new_sources.own_cost, parts * new_sources.cost, "{text}");
    }
    assert_eq!(compiled(&hosts).new_sources.own_cost, 0);
}

/// A tier's bit is not reused at once, because packets of the last moment still carry it.
#[test]
fn added_tier_does_not_reuse_the_bit_of_a_removed_tier() {
    let settings_with = |tier: &str| settings(&format!("{ONE}[lists]\n{tier} = []\n"));
    let before = TierBits::default().for_settings(&settings_with("a")).0;
    let after = before.for_settings(&settings_with("b")).0;
    assert_eq!((before.of("a"), after.of("a")), (Some(3), None));
    assert_eq!(after.of("b"), Some(4));
}
