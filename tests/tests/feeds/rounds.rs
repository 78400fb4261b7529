//! Rounds: lists that change, are broken, or are not sent again, and feeds that are killed.

use std::{collections::HashSet, thread::sleep, time::Duration};

use limiter_kernel::{Attachment, sys::clock};
use limiter_tests::{
    eventually,
    exporter::{Exporter, loopback_up},
    feeds::{Feed, Server, end},
    hosts::Hosts,
    need_kernel, number,
    traffic::Traffic,
};
use nix::sys::signal::Signal;

use super::{LIST, PREFIXES, attached};

#[test]
fn bans_follow_a_file_and_leave_those_of_others() {
    need_kernel!();
    let hosts = attached();
    let feed = Feed::new(&hosts, "file");
    let list = feed.write("list", LIST);
    feed.configure(&format!("list = '{list}'\ninterfaces = ['eth0']"));
    hosts.run("ban eth0 203.0.113.7 --for 1h --reason mine");
    feed.once("--once").expect(0);
    assert_eq!(feed.bans(), PREFIXES);
    let traffic = Traffic::new(&hosts);
    for source in ["198.51.100.7", "203.0.113.7", "2001:db8::7"] {
        assert_eq!(traffic.passed(source, 3), 0, "{source}");
    }
    // Another feed with the same entries.
    let other = Feed::new(&hosts, "other");
    other.configure(&format!("list = '{list}'"));
    other.once("--once").expect(0);
    assert_eq!(other.bans(), PREFIXES);
    other.once("--remove").expect(0);
    assert_eq!(feed.bans(), PREFIXES);
    feed.write("list", "192.0.2.7/32\n203.0.113.7\n");
    feed.once("--once").expect(0);
    assert_eq!(feed.bans(), ["192.0.2.7", "203.0.113.7"]);
    assert_eq!(traffic.passed("192.0.2.8", 3), 3);
    assert_eq!(traffic.passed("2001:db8::7", 3), 3);
    other.once("--once").expect(0);
    other.once("--remove").expect(0);
    assert_eq!(feed.bans(), ["192.0.2.7", "203.0.113.7"]);
    let removed = feed.once("--remove");
    assert_eq!(removed.stdout, format!("{}: 2 bans removed\n", feed.name));
    let left = hosts.json("bans eth0 --json");
    assert_eq!(left["bans"][0]["reason"], "mine", "{left}");
    assert_eq!(left["bans"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(traffic.passed("203.0.113.7", 3), 0);
}

#[test]
fn broken_lists_change_nothing() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    let server = Server::start(&hosts);
    let feed = Feed::new(&hosts, "broken");
    let url = format!("http://127.0.0.1:{}/list", server.port);
    feed.configure(&format!("list = '{url}'\nmax-size = 10000"));
    let more: String = (0..150).map(|n| format!("10.1.{n}.0/24\n")).collect();
    server.body("ETag: \"one\"\r\n", &format!("{LIST}{more}"));
    feed.once("--once").expect(0);
    let before = feed.bans();
    assert_eq!(before.len(), 153);
    let whole = |text: &str| format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{text}");
    let many: String = (0..120).map(|n| format!("10.0.{n}.0/24\n")).collect();
    let long = format!("{}192.0.2.1\n", "# long\n".repeat(2_000));
    for (name, answer, says) in [
        ("empty", whole("Content-Length: 0\r\n\r\n"), "no addresses"),
        (
            "a page",
            whole("\r\n<html>\n<body>no</body>\n</html>\n"),
            "web page",
        ),
        (
            "cut off",
            whole("Content-Length: 999\r\n\r\n192.0.2.7\n"),
            "",
        ),
        ("too long", whole(&format!("\r\n{long}")), "max-size"),
        ("not HTTP", "192.0.2.7\n".to_owned(), ""),
        ("nothing", String::new(), ""),
        (
            "gone",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "404",
        ),
        (
            "another list",
            whole(&format!("\r\n{many}")),
            "would remove 153 of 153",
        ),
        (
            "unchanged, though not asked",
            "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n".to_owned(),
            "304",
        ),
        (
            "a circle",
            format!(
                "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: {url}\r\n\r\n"
            ),
            "redirect",
        ),
    ] {
        server.answer(answer);
        let outcome = feed.once("--once");
        outcome.expect_error(1, &[&url, says]);
        assert_eq!(feed.bans(), before, "{name}");
    }
    feed.configure(&format!("list = '{url}'\nmax-change = 100000"));
    server.body("", &many);
    feed.once("--once").expect(0);
    assert_eq!(feed.bans().len(), 120);
}

#[test]
fn unchanged_list_is_not_sent_again_and_its_bans_are_renewed() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    let server = Server::start(&hosts);
    let feed = Feed::new(&hosts, "tag");
    feed.configure(&format!(
        "list = 'http://127.0.0.1:{}/'\ninterval = '1s'\nkeep = '8s'",
        server.port
    ));
    server.body("ETag: \"one\"\r\n", "192.0.2.7\n");
    let process = feed.start(Duration::from_secs(120));
    eventually("the ban", || feed.bans() == ["192.0.2.7"]);
    server.answer("HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n");
    let has_tag = |request: &String| request.to_lowercase().contains("if-none-match: \"one\"");
    eventually("requests with the tag", || {
        server
            .asked
            .lock()
            .unwrap()
            .iter()
            .filter(|line| has_tag(line))
            .count()
            > 10
    });
    // Longer than it was kept for.
    assert_eq!(feed.bans(), ["192.0.2.7"]);
    // Once the server fails, bans end.
    server.answer("");
    eventually("the error", || feed.status()["error"].is_string());
    eventually("the end of the ban", || feed.bans().is_empty());
    end(process, Signal::SIGTERM);
}

#[test]
fn state_is_in_status_and_in_the_metrics() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    let feed = Feed::new(&hosts, "state");
    let list = feed.write("list", LIST);
    feed.configure(&format!("list = '{list}'\ninterval = '1s'"));
    let exporter = Exporter::start(&hosts.server);
    let up = || {
        let name = format!("limiter_feed_up{{feed=\"{}\"}}", feed.name);
        exporter.samples().get(&name).copied()
    };
    assert_eq!((up(), feed.status()), (None, serde_json::Value::Null));
    let process = feed.start(Duration::from_secs(120));
    eventually("the feed is up", || up() == Some(1.0));
    let state = feed.status();
    assert_eq!(number(&state["wanted"]), 3, "{state}");
    assert_eq!(
        (&state["running"], &state["error"]),
        (&true.into(), &().into())
    );
    let twice = feed.once("--once");
    twice.expect_error(1, &["runs already", "systemctl stop"]);
    // Removed by hand, and back with the next comparison.
    std::fs::remove_file(&list).unwrap();
    eventually("the feed is down", || up() == Some(0.0));
    let state = feed.status();
    assert!(state["error"].as_str().unwrap().contains(&list), "{state}");
    assert_eq!(feed.bans(), PREFIXES);
    feed.write("list", "198.51.100.0/24\n");
    eventually("the feed is up again", || up() == Some(1.0));
    assert_eq!(feed.bans(), ["198.51.100.0/24"]);
    end(process, Signal::SIGKILL);
    eventually("the feed is seen as dead", || up() == Some(0.0));
    assert_eq!(feed.status()["running"], false);
    assert_eq!(feed.bans(), ["198.51.100.0/24"]);
    let process = feed.start(Duration::from_secs(120));
    eventually("the feed is up once more", || up() == Some(1.0));
    end(process, Signal::SIGTERM);
    eventually("the feed is forgotten", || up().is_none());
}

#[test]
fn feed_that_is_killed_at_any_step_leaves_whole_bans() {
    need_kernel!();
    let hosts = attached();
    let feed = Feed::new(&hosts, "killed");
    let lists = [0, 1].map(|net| -> HashSet<String> {
        let address = |n: u32| format!("10.{net}.{}.{}", n / 250, n % 250);
        (0..6_000).map(address).collect()
    });
    let text = |list: &HashSet<String>| list.iter().cloned().collect::<Vec<_>>().join("\n");
    let path = feed.write("list", &text(&lists[0]));
    feed.configure(&format!("list = '{path}'\nmax-change = 100000"));
    let in_force = || -> HashSet<String> {
        let bans = hosts.server.namespace.block_on(|| async {
            let attachment = Attachment::open("eth0").await.unwrap();
            attachment.bans.at(clock::now().unwrap()).unwrap()
        });
        let bans = bans.unwrap().into_iter();
        bans.map(|(net, _)| net.addr().to_string()).collect()
    };
    let mut within = 0;
    for round in 0..6 {
        let list = &lists[round % 2];
        feed.write("list", &text(list));
        let before = in_force();
        let process = feed.start(Duration::from_secs(120));
        eventually("a change", || in_force() != before);
        sleep(Duration::from_millis(round as u64 * 5));
        end(process, Signal::SIGKILL);
        // `status` counts the bans that are in force, and each is of one of the lists.
        let bans = in_force();
        let counted = &hosts.status()["bans"]["by_origin"][&feed.name];
        assert_eq!(counted.as_u64().unwrap_or(0), bans.len() as u64, "{round}");
        assert!(
            bans.iter()
                .all(|ban| lists.iter().any(|list| list.contains(ban)))
        );
        within += usize::from(bans != *list);
    }
    // A first load that was cut short is completed, whatever `max-change` is.
    feed.once("--remove").expect(0);
    feed.configure(&format!("list = '{path}'"));
    let process = feed.start(Duration::from_secs(120));
    eventually("a change", || !in_force().is_empty());
    end(process, Signal::SIGKILL);
    feed.once("--once").expect(0);
    assert_eq!(in_force(), lists[1]);
    // Bans of others are beside its own.
    let other = Feed::new(&hosts, "after");
    other.configure(&format!(
        "list = '{}'",
        other.write("list", &(text(&lists[1]) + "\n192.0.2.7"))
    ));
    for _ in 0..2 {
        other.once("--once").expect(0);
        assert_eq!(other.bans().len(), lists[1].len() + 1);
    }
    other.once("--remove").expect(0);
    feed.configure(&format!("list = '{path}'\nmax-change = 100000"));
    println!("{within} of 6 were killed within the change");
    assert!(within > 0);
    feed.write("list", LIST);
    feed.once("--once").expect(0);
    assert_eq!(feed.bans(), PREFIXES);
}

#[test]
fn mistakes_are_named() {
    need_kernel!();
    let hosts = Hosts::new();
    let feed = Feed::new(&hosts, "wrong");
    let list = feed.write("list", LIST);
    feed.configure(&format!("list = '{list}'\ninterfaces = ['eth0']"));
    feed.once("--once")
        .expect_error(1, &["not attached", "eth0"]);
    feed.configure("lists = 'x'\ninterval = 5");
    let outcome = feed.once("--once");
    outcome.expect(1);
    for mistake in [
        "line 1: 'lists' is not a key of a feed: did you mean 'list'?",
        "line 2: interval: the number 5 is not allowed here",
        "has 2 mistakes, and nothing was changed",
    ] {
        assert!(outcome.stderr.contains(mistake), "{outcome:#?}");
    }
    hosts
        .limiter("feed hand")
        .expect_error(2, &["'hand' cannot be the name"]);
    // Not the feed `wrong`.
    hosts
        .limiter("feed wrong.v6")
        .expect_error(2, &["'wrong.v6' cannot be the name"]);
    hosts
        .limiter("feed missing")
        .expect_error(1, &["/etc/limiter/feeds/missing.toml"]);
    hosts.run("attach eth0 --rate 5 --burst 10 --max-bans 2");
    feed.configure(&format!("list = '{list}'"));
    feed.once("--once")
        .expect_error(1, &["room for 1 bans more", "--max-bans"]);
    assert_eq!(feed.bans(), [""; 0]);
}
