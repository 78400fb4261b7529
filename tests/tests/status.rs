//! `status` shows counters first, fits a terminal, and measures rates on a terminal or on request.

use std::time::{Duration, Instant};

use limiter_tests::{
    command::ip,
    files::{Folder, at_driver},
    hosts::Hosts,
    need_kernel, need_program, number,
    screen::Screen,
    traffic::{Flood, Traffic, udp},
};

const FILE: &str = r#"
interfaces = ["eth0"]

[[limit]]
name = "web"
match = { protocol = "udp", destination_port = 80 }
rate = "1/h"
burst = 5

[[limit]]
name = "all"
key = "interface"
rate = "1/h"
burst = 50
"#;

fn flooded() -> (Hosts, Flood) {
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    // Packets from before the readings are in no rate.
    Traffic::new(&hosts).passed("192.0.2.8", 20_000);
    let frames = vec![udp(&hosts, "192.0.2.7".parse().unwrap(), 9); 10];
    let flood = Flood::start(&hosts, frames, Duration::from_millis(10));
    (hosts, flood)
}

#[test]
fn status_measures_rates_on_request_only() {
    need_kernel!();
    let (hosts, flood) = flooded();
    let begin = Instant::now();
    let status = hosts.json("status eth0 --json");
    assert!(
        begin.elapsed() < Duration::from_millis(900),
        "one reading takes no second"
    );
    let unmeasured = &status["interfaces"][0];
    assert!(unmeasured["rates"].is_null(), "{status}");
    assert!(!hosts.run("status eth0").contains("  now "));
    let (begin, before) = (Instant::now(), flood.sent());
    let status = hosts.json("status eth0 --json --interval 1s");
    let sent = (flood.end() - before) as f64 / begin.elapsed().as_secs_f64();
    let rates = &status["interfaces"][0]["rates"];
    let seconds = rates["interval_seconds"].as_f64().unwrap();
    assert!((1.0..2.0).contains(&seconds), "{status}");
    let dropped = rates["dropped"]["packets"].as_f64().unwrap();
    // The command takes longer than its interval, and the flood is not even.
    assert!(
        (sent / 2.0..sent * 2.0).contains(&dropped),
        "{sent}/s sent: {status}"
    );
    let all = &status["interfaces"][0]["limits"][1]["rates"];
    // The counters of limits are read a moment after the interface's, and the flood goes on.
    let by_limit = all["dropped"]["packets"].as_f64().unwrap();
    assert!(
        (0.9 * dropped..1.1 * dropped).contains(&by_limit),
        "{status}"
    );
    let web = &status["interfaces"][0]["limits"][0]["rates"];
    assert_eq!(web["dropped"]["packets"], 0.0, "{status}");
}

#[test]
fn status_fits_a_terminal_and_shows_rates_there() {
    need_kernel!();
    need_program!("tmux");
    let (hosts, _flood) = flooded();
    hosts.run("deny add eth0 203.0.113.0/24");
    hosts.run("set eth0 --limit web --rate 2/h --try 1m");
    let screen = Screen::open(&hosts.server, (80, 24));
    screen.limiter("status");
    screen.wait_for("match {");
    let lines = screen.lines();
    let found = |words: &str| {
        let line = lines.iter().position(|line| line.contains(words));
        line.unwrap_or_else(|| panic!("no '{words}' in {lines:#?}"))
    };
    let order = [
        "eth0: ",
        "ON TRIAL",
        "  packets  ",
        "  bytes ",
        "  now ",
        "LIMIT ",
        "web ",
    ];
    assert!(order.map(found).is_sorted(), "{lines:#?}");
    assert!(lines[found("LIMIT ")].contains("OVER/s"), "{lines:#?}");
    // A break of the terminal's own would begin the next line with the rest of a word.
    let is_indented = |line: &String| line.is_empty() || line.starts_with("  ");
    let (first, last) = (found("eth0: "), found("match {"));
    assert!(
        lines[first + 1..=last].iter().all(is_indented),
        "{lines:#?}"
    );
    let dropped = number(&hosts.status()["dropped"]["packets"]);
    assert!(dropped > 0);
}

/// The pins of an interface that is gone are left. What outlives it is named, and the command that limits again.
#[test]
fn interface_that_is_gone_is_said_to_be_gone() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let text = at_driver("keep_bans = true\n[[limit]]\nname = \"all\"\nrate = \"10/s\"\n");
    let file = folder.write("limiter.toml", text);
    hosts.run(&["attach", "eth0", "--config", &file]);
    ip(&hosts.client.namespace, "link delete eth0");
    let again = format!("`limiter attach eth0 --or-reload --config {file}`");
    let kept = format!(
        "kept: its history (`limiter history eth0`), its bans by hand, its configuration file {file}"
    );
    for line in ["status", "status eth0"] {
        let gone = hosts.limiter(line);
        gone.expect(1);
        for words in ["'eth0' any more: the interface is gone", &kept, &again] {
            assert!(gone.stderr.contains(words), "'{words}': {gone:#?}");
        }
        let all = gone.stdout.clone() + &gone.stderr;
        assert!(!all.contains("not attached"), "{gone:#?}");
    }
    hosts.run("detach eth0");
    assert_eq!(
        hosts.run("status"),
        "limiter is not attached to any interface\n"
    );
}
