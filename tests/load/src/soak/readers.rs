//! Reads the attachment again and again: commands, scrapes, `watch`, the live view.

use std::{collections::BTreeMap, io::Write, time::Duration};

use serde_json::Value;

use super::{checks, state::Soak, wire::Role};
use limiter_tests::{need, number, screen::Screen, watcher::Watcher};

/// Runs queries.
pub fn query(soak: &Soak<'_>) {
    let json = |line: &str| -> Value { serde_json::from_str(&soak.limiter(line)).unwrap() };
    for source in soak.wire.sources.iter().cycle() {
        if !soak.goes_on() {
            return;
        }
        checks::expect_sums(&json("status eth0 --json")["interfaces"][0]);
        let check = json(&format!("check eth0 {} --json", source.address));
        if source.role == Role::Slow {
            let limits = check["limits"].as_array().unwrap();
            let all = limits.iter().find(|limit| limit["name"] == "all").unwrap();
            assert_eq!(number(&all["dropped_packets"]), 0, "{check}");
            assert_eq!(all["tracked"], true, "{check}");
        }
        let top = json("top eth0 --once --json -n 50");
        let most = top["sources"].as_array().unwrap().len();
        assert!((1..=50).contains(&most), "{top}");
        soak.limiter("config show eth0");
        soak.sleep(soak.plan.pause.max(Duration::from_millis(100)));
    }
}

/// Scrapes the exporter, and hangs up before some answers. No counter may be less than before.
pub fn scrape(soak: &Soak<'_>) {
    let mut last = BTreeMap::new();
    for page in ["/", "/healthz", "/api/status"].iter().cycle() {
        if !soak.goes_on() {
            return;
        }
        let mut now = soak.exporter.samples();
        now.retain(|name, _| stays(name));
        for (name, was) in &last {
            let is = now.get(name);
            assert!(is >= Some(was), "{name} was {was}, and is {is:?}");
        }
        last = now;
        soak.count("scrape");
        let _ = soak.exporter.get(page);
        for request in [
            "GET /metr",
            "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        ] {
            // The exporter may have closed the connection before.
            let _ = soak.exporter.connect().write_all(request.as_bytes());
        }
        soak.sleep(Duration::from_millis(300));
    }
}

/// True for a counter that a reload does not restart: it belongs to the common limit, or to no limit and no list.
fn stays(name: &str) -> bool {
    let of_a_limit = name.contains("limit=\"") && !name.contains("limit=\"all\"");
    name.contains("_total{") && !of_a_limit && !name.contains("list=\"")
}

/// Runs sessions of `limiter watch`, one after the other. Every second one is killed.
pub fn watch(soak: &Soak<'_>) {
    for session in 0_u64.. {
        if !soak.goes_on() {
            return;
        }
        // Other tests may hold the machine's lock for too long.
        let Ok(mut watcher) = Watcher::try_to_start(soak.hosts, &["--json"]) else {
            continue;
        };
        let mut shown = 0;
        while soak.goes_on() && shown < 1_000 {
            let line = watcher.line_if_any();
            assert!(line.is_some() || !soak.goes_on(), "no event came");
            shown += u64::from(line.is_some());
        }
        if session.is_multiple_of(2) {
            let (all, _) = watcher.end().sums();
            assert!(all >= shown, "{shown} shown, {all} reported");
        }
        soak.count("watch");
    }
}

/// Runs the live view on a terminal, if tmux is installed.
pub fn view(soak: &Soak<'_>) {
    if !need::program("the live view during the soak", "tmux") {
        return;
    }
    let screen = Screen::open(&soak.hosts.server, (100, 30));
    screen.limiter("top eth0");
    screen.wait_for("q quit");
    let process = screen.process();
    while soak.goes_on() {
        soak.memory.lock().unwrap().note("limiter top", process);
        screen.press("s");
        soak.count("key in the live view");
        soak.sleep(Duration::from_secs(1));
    }
    screen.press("q");
    screen.wait_for("status 0");
}
