//! One command limits one service: by flags, beside other limits, by presets, and by a file whose mode and shadow it
//! overrides.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use limiter_tests::{
    command::{Outcome, prepared},
    files::Folder,
    hosts::Hosts,
    need_kernel,
    traffic::Traffic,
};
use serde_json::json;

const FILE: &str = r#"
[[limit]]
name = "all"
rate = "1k/s"
"#;

fn names(hosts: &Hosts) -> Vec<String> {
    let status = hosts.status();
    let limits = status["limits"].as_array().unwrap().iter();
    let names = limits.map(|limit| limit["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[test]
fn attach_limits_one_service_by_protocol_and_port() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5/m --port 22,8000-8080 --port https --protocol tcp");
    let shown = hosts.run("config show eth0");
    for words in [
        "protocol = \"tcp\"",
        "destination_port = [22, \"8000-8080\", 443]",
        "rate = \"5/m\"",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let wrong = hosts.limiter("attach eth0 --rate 5 --port 22 --protocol icmp");
    wrong.expect_error(2, &["icmp"]);
}

#[test]
fn limit_is_added_changed_and_removed_beside_others() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1k/s");
    let added = hosts.run("limit eth0 ssh --port 22 --protocol tcp --rate 5/m");
    assert_eq!(added, "eth0: limit ssh new: 5/m\n");
    assert_eq!(names(&hosts), ["default", "ssh"]);
    hosts.run("limit ssh --flags syn");
    let shown = hosts.run("config show");
    let requests = "match = { protocol = \"tcp\", destination_port = 22, tcp_flags = \"syn\" }";
    assert!(shown.contains(requests), "{shown}");
    hosts.run("limit smtp --port 25 --flags syn --rate 5/m");
    let shown = hosts.run("config show");
    assert!(shown.contains(&requests.replace("22", "25")), "{shown}");
    hosts.run("limit smtp --remove");
    let changed = hosts.run("limit ssh --rate 10/m --shadow on");
    for words in ["ssh: rate 5/m -> 10/m", "ssh: shadow"] {
        assert!(changed.contains(words), "{changed}");
    }
    let shown = hosts.run("config show");
    assert!(shown.contains("destination_port = 22"), "kept: {shown}");
    hosts.run("limit ssh --port 2222");
    let shown = hosts.run("config show");
    assert!(shown.contains("destination_port = 2222"), "{shown}");
    let tried = hosts.run("limit web --port 443 --rate 1k/s --dry-run");
    assert!(tried.contains("limit web new: 1k/s"), "{tried}");
    assert_eq!(names(&hosts), ["default", "ssh"]);
    let gone = hosts.run("limit eth0 ssh --remove");
    assert_eq!(gone, "eth0: limit ssh gone\n");
    assert_eq!(names(&hosts), ["default"]);
    for (line, status, words) in [
        ("limit ssh --burst 5", 1, ["--rate", "there is default"]),
        ("limit ssh --remove", 1, ["no limit 'ssh'", "default"]),
        ("limit eth0 ssh", 2, ["--rate", "--remove"]),
        ("limit eth0 --rate 5/m", 2, ["NAME", "limit"]),
        ("limit eth0 control --rate 5/m", 2, ["built-in", "control"]),
    ] {
        hosts.limiter(line).expect_error(status, &words);
    }
}

/// The limits of both apply. Example prefixes do not: they are addresses of documents.
#[test]
fn presets_are_merged_in_shadow_without_their_examples() {
    need_kernel!();
    let hosts = Hosts::new();
    let line = "attach eth0 --preset web,ssh --preset dns-server --shadow --allow 198.51.100.9";
    let outcome = hosts.limiter(line);
    outcome.expect(0);
    let words = "limiter tier add IFACE resolvers CIDR";
    assert!(outcome.stderr.contains(words), "{outcome:#?}");
    let found = names(&hosts);
    let rests = found.iter().filter(|name| name.ends_with("rest"));
    assert_eq!(
        rests.count(),
        1,
        "one for what none of them matches: {found:?}"
    );
    for name in ["connect", "ssh", "rest", "question", "dns-server-tcp"] {
        assert!(found.iter().any(|found| found == name), "{name}: {found:?}");
    }
    let connections = found.iter().filter(|name| name.contains("connections"));
    assert_eq!(connections.count(), 1, "equal limits are one: {found:?}");
    let status = hosts.status();
    assert_eq!(status["shadow"], json!(true));
    assert_eq!(hosts.run("allow list"), "198.51.100.9\n");
    assert_eq!(hosts.run("deny list"), "");
    let both = hosts.limiter("attach eth0 --preset web --rate 5");
    both.expect_error(2, &["--preset", "--rate"]);
    let unknown = hosts.limiter("attach eth0 --preset wep");
    unknown.expect_error(2, &["'web'"]);
}

#[test]
fn shadow_and_mode_of_the_command_override_the_file() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", FILE);
    let attached = hosts.limiter(&[
        "attach", "eth0", "--config", &file, "--shadow", "--mode", "generic",
    ]);
    attached.expect(0);
    let words = "`limiter reload` ends the shadow";
    assert!(attached.stderr.contains(words), "{attached:#?}");
    let status = hosts.status();
    assert_eq!(status["shadow"], json!(true));
    assert_eq!(status["mode"], json!("generic"));
    // The file names no mode: that of the attachment stays.
    let reloaded = hosts.run("reload eth0");
    assert_eq!(reloaded, "eth0: shadow on -> off\n");
    assert_eq!(hosts.status()["mode"], json!("generic"));
    hosts.run("detach eth0");
    let file = folder.write("native.toml", format!("mode = \"native\"\n{FILE}"));
    let attached = hosts.limiter(&["attach", "eth0", "--config", &file, "--mode", "generic"]);
    let words = "mode = \"native\" in the file: `limiter reload` will refuse it";
    assert!(attached.stderr.contains(words), "{attached:#?}");
    let refused = hosts.limiter("reload eth0");
    refused.expect_error(1, &["mode is fixed at attach"]);
}

#[test]
fn configuration_is_read_from_standard_input_and_reload_says_that_there_is_no_file() {
    need_kernel!();
    let hosts = Hosts::new();
    let wrong = hosts.limiter_fed("attach eth0 --config -", "rat = 5\n");
    wrong.expect(1);
    assert!(
        wrong.stderr.contains("standard input, line 1"),
        "{wrong:#?}"
    );
    hosts.limiter_fed("attach eth0 --config -", FILE).expect(0);
    assert_eq!(names(&hosts), ["all"]);
    let reload = hosts.limiter("reload eth0");
    reload.expect_error(1, &["not attached from a file", "--config FILE"]);
    let changed = FILE.replace("1k/s", "2k/s");
    let outcome = hosts.limiter_fed("reload eth0 --config -", &changed);
    assert!(
        outcome.stdout.starts_with("eth0: rate 1k/s -> 2k/s\n"),
        "{outcome:#?}"
    );
    let checked = hosts.limiter_fed("config check -", FILE);
    assert!(
        checked.stdout.starts_with("standard input: valid"),
        "{checked:#?}"
    );
    let both = hosts.limiter_fed("replay - --config -", FILE);
    both.expect_error(2, &["both the capture and the configuration"]);
}

/// A pipe that gives its text late, while other commands go on.
#[test]
fn slow_standard_input_holds_up_no_other_command() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1k/s");
    let mut reload = hosts
        .server
        .namespace
        .run(|| {
            let mut command = prepared("reload eth0 --config -");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command.stderr(Stdio::piped()).spawn().unwrap()
        })
        .unwrap();
    let mut input = reload.stdin.take().unwrap();
    input.write_all(&FILE.as_bytes()[..5]).unwrap();
    let began = Instant::now();
    hosts.run("set --rate 3k/s");
    assert!(began.elapsed() < Duration::from_secs(20));
    input.write_all(&FILE.as_bytes()[5..]).unwrap();
    drop(input);
    let outcome = Outcome::of("reload".to_owned(), reload.wait_with_output().unwrap());
    outcome.expect(0);
    assert_eq!(names(&hosts), ["all"]);
}

/// As `destination` does. `check` knows them too.
#[test]
fn limit_matches_prefixes_of_sources_without_a_list() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(
        r#"
        interfaces = "eth0"
        [[limit]]
        name = "office"
        match = { source = ["192.0.2.0/25", "2001:db8::/48"] }
        rate = "1/h"
        burst = 3
        [[limit]]
        name = "others"
        match = { unless = "192.0.2.0/24" }
        rate = "1/h"
        burst = 5
        "#,
    );
    let traffic = Traffic::new(&hosts);
    for (source, sent, passed) in [
        ("192.0.2.7", 10, 3),
        ("192.0.2.200", 10, 10),
        ("198.51.100.7", 10, 5),
    ] {
        assert_eq!(traffic.passed(source, sent), passed, "{source}");
    }
    let limits = |source: &str| -> Vec<String> {
        let check = hosts.json(&["check", "eth0", source, "--json"]);
        let limits = check["limits"].as_array().unwrap().iter();
        let names = limits.map(|limit| limit["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    assert_eq!(limits("192.0.2.7"), ["office"]);
    assert!(limits("192.0.2.200").is_empty());
    assert_eq!(limits("203.0.113.1"), ["others"]);
    let shown = hosts.run("config show eth0");
    assert!(shown.contains("unless = \"192.0.2.0/24\""), "{shown}");
}

#[test]
fn file_without_prefixes_empties_a_list() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    hosts.run("attach eth0 --rate 5 --deny 203.0.113.1");
    let empty = folder.write("empty.txt", "# nobody\n");
    let replaced = hosts.run(&["deny", "replace", "eth0", "--file", &empty]);
    assert_eq!(replaced, "eth0: deny: 0 added, 1 removed\n");
}

#[test]
fn advice_to_switch_merging_off_is_given_where_it_is_on() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5 --mode generic");
    let advice = "ethtool -K eth0 gro off";
    let switch = |state: &str| {
        let line = ["-K", "eth0", "gro", state];
        let done = hosts
            .server
            .namespace
            .run(|| Command::new("ethtool").args(line).status());
        assert!(done.unwrap().unwrap().success(), "{state}");
        hosts.run("status eth0").contains(advice)
    };
    assert!(switch("on"));
    assert!(!switch("off"));
}
