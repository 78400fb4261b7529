//! A prefix that several origins ban: the latest end holds, and each origin ends its own ban.

use std::{thread::sleep, time::Duration};

use limiter_tests::{hosts::Hosts, need_kernel, traffic::Traffic};
use serde_json::{Value, json};

use super::{FAST, count, dropped, is_banned};

/// Origin and whole seconds left (null: no end) of each ban.
fn owners(hosts: &Hosts) -> Vec<Value> {
    let bans = hosts.json("bans eth0 --json")["bans"].clone();
    let owner = |ban: &Value| {
        let left = ban["left_seconds"].as_f64().map(f64::ceil);
        json!([ban["prefix"], ban["origin"], left])
    };
    bans.as_array().unwrap().iter().map(owner).collect()
}

/// The origins that ban a prefix, in their order.
fn origins(hosts: &Hosts, prefix: &str) -> Vec<String> {
    let all = owners(hosts).into_iter();
    let of_prefix = all.filter(|owner| owner[0] == prefix);
    of_prefix
        .map(|owner| owner[1].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_origin_ends_its_own_ban_and_the_latest_end_holds() {
    need_kernel!();
    for (banned, source) in [
        ("192.0.2.7", "192.0.2.7"),
        ("198.51.100.0/24", "198.51.100.7"),
    ] {
        let hosts = Hosts::new();
        hosts.run(FAST);
        let run = |words: &str| hosts.limiter(words).expect(0);
        run(&format!(
            "ban eth0 {banned} --for 1d --origin fail2ban:recidive --reason long"
        ));
        run(&format!(
            "ban eth0 {banned} --for 1m --origin fail2ban:sshd"
        ));
        run(&format!("ban eth0 {banned} --for 1h"));
        assert_eq!(
            origins(&hosts, banned),
            ["fail2ban:recidive", "fail2ban:sshd", "hand"]
        );
        // Packets are counted once, for the prefix.
        assert!(is_banned(&hosts, source));
        let check = hosts.json(&["check", "eth0", source, "--json"]);
        assert_eq!(check["ban"]["origin"], "fail2ban:recidive", "{check}");
        assert_eq!(dropped(&hosts, source), 3);

        let unban = hosts.limiter(&format!("unban eth0 {banned} --origin fail2ban:sshd"));
        assert!(unban.stderr.contains("stays banned"), "{unban:?}");
        assert!(is_banned(&hosts, source));
        run(&format!("unban eth0 {banned} --origin fail2ban:recidive"));
        assert_eq!(origins(&hosts, banned), ["hand"]);
        assert!(is_banned(&hosts, source));
        assert_eq!(dropped(&hosts, source), 9, "the count stays");
        run(&format!("unban eth0 {banned} --origin hand"));
        assert!(!is_banned(&hosts, source));
        assert_eq!(count(&hosts), 0);

        // By hand, all of them end.
        run(&format!("ban eth0 {banned} --origin one"));
        run(&format!("ban eth0 {banned} --origin two"));
        let unban = hosts.limiter(&format!("unban eth0 {banned}"));
        assert_eq!(unban.stderr, "", "{unban:?}");
        assert!(!is_banned(&hosts, source));
        assert_eq!(count(&hosts), 0);
    }
}

#[test]
fn ban_that_ends_earlier_leaves_those_of_other_origins() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(FAST);
    hosts.run("ban eth0 192.0.2.7 --for 1h --origin long");
    // A shorter time by its own origin is the new one.
    hosts.run("ban eth0 192.0.2.7 --for 30m --origin long");
    hosts.run("ban eth0 192.0.2.7 192.0.2.8 --for 1s --origin short");
    sleep(Duration::from_millis(1_050));
    assert!(!is_banned(&hosts, "192.0.2.8"));
    assert!(is_banned(&hosts, "192.0.2.7"));
    let owners = owners(&hosts);
    assert_eq!(owners.len(), 1, "{owners:?}");
    assert!(owners[0][2].as_f64() <= Some(1_800.0), "{owners:?}");
    assert_eq!(count(&hosts), 1);
}

/// The allow list takes precedence over bans of programs, not over those by hand: also of one prefix.
#[test]
fn within_an_allowed_network_only_the_ban_by_hand_of_a_prefix_drops() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1M --burst 1M --allow 198.51.100.0/24");
    for order in [["--origin list", ""], ["", "--origin list"]] {
        for words in order {
            let words = if words.is_empty() { "--for 1s" } else { words };
            let ban = hosts.limiter(&format!("ban eth0 198.51.100.7 {words}"));
            ban.expect(0);
        }
        assert!(is_banned(&hosts, "198.51.100.7"), "{order:?}");
        sleep(Duration::from_millis(1_050));
        // The program's ban lasts, and the source passes.
        assert!(!is_banned(&hosts, "198.51.100.7"), "{order:?}");
        assert_eq!(origins(&hosts, "198.51.100.7"), ["list"]);
        hosts.run("unban eth0 198.51.100.7");
    }
}

#[test]
fn max_bans_counts_each_prefix_and_origin() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(&format!("{FAST} --max-bans 3"));
    hosts.run("ban eth0 192.0.2.7 10.0.0.0/8 --origin one");
    hosts.run("ban eth0 192.0.2.7 --origin two");
    for (words, fits) in [
        ("192.0.2.7 --origin three", false),
        ("192.0.2.8 --origin one", false),
        ("192.0.2.7 --origin two --for 1h", true),
    ] {
        let done = hosts.limiter(&format!("ban eth0 {words}"));
        match fits {
            true => done.expect(0),
            false => done.expect_error(1, &["room for 3 bans", "there would be 4"]),
        }
    }
    hosts.run("unban eth0 192.0.2.7 --origin one");
    hosts.run("ban eth0 192.0.2.7 --origin three");
    assert_eq!(count(&hosts), 3);

    // A prefix has 32 origins at most.
    hosts.run("detach eth0");
    hosts.run(FAST);
    for origin in 0..32 {
        hosts.run(&format!("ban eth0 192.0.2.7 --origin o{origin}"));
    }
    let one_more = hosts.limiter("ban eth0 192.0.2.8 192.0.2.7 --origin more");
    one_more.expect_error(1, &["32 origins ban 192.0.2.7", "none was added"]);
    assert_eq!(count(&hosts), 32);
    hosts.run("unban eth0 192.0.2.7 --origin o7");
    hosts.run("ban eth0 192.0.2.7 --origin more");
    assert_eq!(count(&hosts), 32);
}

#[test]
fn ban_and_unban_name_the_bans_around_and_of_others() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(FAST);
    hosts.run("ban eth0 203.0.113.0/24 --origin drop");
    let inner = hosts.limiter("ban eth0 203.0.113.7 --for 1h --reason scan");
    let words = "203.0.113.7 is within 203.0.113.0/24, which is banned by drop";
    assert!(inner.stderr.contains(words), "{inner:?}");
    let other = hosts.limiter("ban eth0 203.0.113.7 --for 1m --origin web");
    let words = ["203.0.113.7 stays banned for 1h", "by hand: scan"];
    assert!(
        words.iter().all(|words| other.stderr.contains(words)),
        "{other:?}"
    );
    let unban = hosts.limiter("unban eth0 203.0.113.7");
    let words = "203.0.113.7 stays banned within 203.0.113.0/24 by drop";
    assert!(unban.stderr.contains(words), "{unban:?}");
    assert!(is_banned(&hosts, "203.0.113.7"));
}

#[test]
fn time_beyond_ten_years_is_ten_years_and_said() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(FAST);
    for time in ["20y", "99999999999999999999s"] {
        let ban = hosts.limiter(&format!(
            "ban eth0 192.0.2.7 --for {time} --origin fail2ban:sshd"
        ));
        ban.expect(0);
        assert!(ban.stderr.contains("lasts 10years at most"), "{ban:?}");
        let owners = owners(&hosts);
        let left = owners[0][2].as_f64().unwrap();
        assert!(
            (315_000_000.0..=316_000_000.0).contains(&left),
            "{owners:?}"
        );
    }
    assert!(is_banned(&hosts, "192.0.2.7"));
}

#[test]
fn list_is_banned_whole_or_not_at_all() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(FAST);
    let folder = limiter_tests::files::Folder::new();
    let good = folder.write("good", "# attackers\n192.0.2.7\n198.51.100.0/24 # net\n");
    let ban = hosts.limiter(&["ban", "eth0", "--file", &good, "2001:db8::7", "--for", "1h"]);
    assert!(
        ban.stdout.contains("192.0.2.7 and 2 more banned for 1h"),
        "{ban:?}"
    );
    let traffic = Traffic::new(&hosts);
    for source in ["192.0.2.7", "198.51.100.7", "2001:db8::7"] {
        assert_eq!(traffic.passed(source, 3), 0, "{source}");
    }
    let many: String = (0..9).map(|i| format!("{i}.0.0.0/7\n")).collect();
    for (text, why) in [
        ("192.0.2.9\nwhat?\n", "line 2"),
        ("192.0.2.9\n10.0.0.0/7\n", "too much of the Internet"),
        (&format!("192.0.2.9\n{many}"), ""),
    ] {
        let file = folder.write("bad", text);
        let refused = hosts.limiter(&["ban", "eth0", "--file", &file]);
        refused.expect_error(1, &["none was banned", why]);
    }
    assert_eq!(count(&hosts), 3);
    let piped = |text: &str, verb: &[&str]| hosts.limiter_fed(verb, text);
    piped("203.0.113.1\n203.0.113.2\n", &["ban", "eth0", "-"]).expect(0);
    assert_eq!(count(&hosts), 5);
    let bad = piped("203.0.113.3\n<html>\n", &["ban", "eth0", "-"]);
    bad.expect_error(1, &["standard input", "none was banned"]);
    let empty = piped("", &["ban", "eth0", "-"]);
    assert!(
        empty.stdout.contains("unchanged: the list is empty"),
        "{empty:?}"
    );
    assert_eq!(count(&hosts), 5);
}

#[test]
fn bans_are_listed_by_drops_or_by_end_and_the_rest_is_counted() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(FAST);
    hosts.run("ban eth0 192.0.2.1");
    hosts.run("ban eth0 192.0.2.2 --for 2h");
    hosts.run("ban eth0 192.0.2.3 --for 1h");
    Traffic::new(&hosts).passed("192.0.2.2", 5);
    let listed = |words: &str| {
        let bans = hosts.json(format!("bans eth0 --json {words}").trim_end());
        let rows = bans["bans"].as_array().unwrap().iter();
        let last = |ban: &Value| {
            ban["prefix"]
                .as_str()
                .unwrap()
                .rsplit('.')
                .next()
                .map(str::to_owned)
        };
        let rows: Vec<_> = rows.filter_map(last).collect();
        (rows.concat(), bans["count"].as_u64().unwrap())
    };
    assert_eq!(listed(""), ("123".to_owned(), 3));
    assert_eq!(listed("--sort end"), ("321".to_owned(), 3));
    assert_eq!(listed("--sort drops -n 1"), ("2".to_owned(), 3));
    let text = hosts.run("bans eth0 --sort end -n 1");
    assert!(
        text.contains("eth0: 3 bans") && text.contains(" and 2 more\n"),
        "{text}"
    );
}
