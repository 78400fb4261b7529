//! A ban and the allow list: which of them decides about a source.

use limiter_tests::{hosts::Hosts, need_kernel};

use super::{FULL, is_banned, reason};

/// An allowed network protects its addresses from bans of programs, not from those by hand.
#[test]
fn allowed_network_protects_from_bans_of_programs() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1000000 --burst 1000000 --allow 198.51.100.0/24 --allow 2001:db8:5::/48");
    for (source, network) in [
        ("198.51.100.7", "198.51.100.0/25"),
        ("2001:db8:5::7", "2001:db8:5::/64"),
    ] {
        for banned in [source, network] {
            let ban = hosts.limiter(&format!("ban eth0 {banned} --origin list"));
            assert!(ban.stderr.contains("still passes eth0"), "{ban:?}");
            assert!(!is_banned(&hosts, source), "{source}, {banned}");
        }
        // One by hand around a ban of a program is found.
        let ban = hosts.limiter(&format!("ban eth0 {network}"));
        assert!(ban.stderr.contains("made by hand"), "{ban:?}");
        assert!(is_banned(&hosts, source), "{source}");
        hosts.run(&format!("unban eth0 {network}"));
        assert!(!is_banned(&hosts, source), "{source}");
        hosts.run("allow remove eth0 198.51.100.0/24 2001:db8:5::/48");
        assert!(is_banned(&hosts, source), "{source}");
        hosts.run("allow add eth0 198.51.100.0/24 2001:db8:5::/48");
    }
}

#[test]
fn allowed_prefix_that_is_as_long_or_longer_wins_over_a_ban() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(FULL);
    for (ban, source, passes) in [
        ("10.1.0.0/16", "10.1.2.3", true),
        ("10.0.0.0/8", "10.1.2.3", true),
        ("10.1.2.0/24", "10.1.2.3", false),
        ("10.1.2.3", "10.1.2.3", false),
        ("2001:db8:1::/48", "2001:db8:1::7", true),
        ("2001:db8:1:2::/64", "2001:db8:1:2::7", false),
        ("2001:db8::/32", "2001:db8:1::7", true),
    ] {
        let outcome = hosts.limiter(&format!("ban eth0 {ban}"));
        outcome.expect(0);
        assert_eq!(
            outcome.stderr.contains("still passes eth0"),
            passes,
            "{outcome:?}"
        );
        assert_eq!(is_banned(&hosts, source), !passes, "{ban}");
        let check = hosts.json(&["check", "eth0", source, "--json"]);
        assert_eq!(
            check["listed"],
            if passes { "allow" } else { "ban" },
            "{ban}"
        );
        hosts.run(&format!("unban eth0 {ban}"));
    }
    hosts.run("deny add eth0 10.1.2.3");
    hosts.run("ban eth0 10.1.2.3");
    let drops = [reason(&hosts, "deny"), reason(&hosts, "ban")];
    assert!(is_banned(&hosts, "10.1.2.3"));
    let after = [reason(&hosts, "deny"), reason(&hosts, "ban")];
    assert_eq!(after, [drops[0], drops[1] + 3], "the ban comes first");
}
