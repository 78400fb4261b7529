//! Lists in other formats than plain lines: what is in force, and what is said about the rest.

use std::time::Duration;

use limiter_tests::{
    eventually,
    exporter::{Exporter, loopback_up},
    feeds::{Feed, end},
    need_kernel, number,
};
use nix::sys::signal::Signal;

use super::attached;

#[test]
fn dry_run_says_what_it_would_change_and_changes_nothing() {
    need_kernel!();
    let hosts = attached();
    let feed = Feed::new(&hosts, "dry");
    let columns = "Start\tEnd\tNetmask\tAttacks\n203.0.113.0\t203.0.113.255\t24\t9\n198.51.100.0\t198.51.100.127\t25\t9\n";
    let list = feed.write("list", columns);
    feed.configure(&format!("list = '{list}'"));
    let planned = feed.once("--once --dry-run");
    planned.expect(0);
    assert!(
        planned.stdout.contains("nothing was changed"),
        "{planned:?}"
    );
    for words in [
        "read 2 entries (2 prefixes) as table (line 1 is a header)",
        "eth0: bans that would be added: 2, renewed: 0, removed: 0",
    ] {
        assert!(planned.stderr.contains(words), "{planned:?}");
    }
    assert_eq!(feed.bans(), [""; 0]);
    let done = feed.once("--once");
    done.expect(0);
    assert!(done.stderr.contains("eth0: bans added: 2"), "{done:?}");
    assert_eq!(feed.bans(), ["198.51.100.0/25", "203.0.113.0/24"]);
    feed.write("list", "203.0.113.0/24\n");
    let planned = feed.once("--once --dry-run");
    let words = "eth0: bans that would be added: 0, renewed: 0, removed: 1";
    assert!(planned.stderr.contains(words), "{planned:?}");
    assert_eq!(feed.bans().len(), 2);
}

#[test]
fn lines_that_are_not_understood_are_counted_by_reason() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    let feed = Feed::new(&hosts, "reasons");
    let many: String = (0..40).map(|last| format!("203.0.113.{last}\n")).collect();
    let wrong = "198.51.100.0 198.51.100.255\n198.51.100.7:80\n010.1.2.3\n";
    let list = feed.write("list", &format!("{many}{wrong}"));
    feed.configure(&format!("list = '{list}'\nformat = 'plain'"));
    let exporter = Exporter::start(&hosts.server);
    let process = feed.start(Duration::from_secs(60));
    eventually("a round", || feed.status()["succeeded"].is_u64());
    assert_eq!(feed.left_out("ambiguous"), 1);
    assert_eq!(
        (feed.left_out("port"), feed.left_out("leading_zeros")),
        (1, 1)
    );
    let state = feed.status();
    assert_eq!(state["read_as"]["format"], "plain", "{state}");
    assert_eq!(number(&state["read_as"]["entries"]), 40);
    let said = feed.said();
    assert!(
        said.contains("line 41, '198.51.100.0 198.51.100.255'"),
        "{said}"
    );
    let shown = hosts.run("status");
    assert!(
        shown.contains("1 entry is left out (an address with a port)"),
        "{shown}"
    );
    eventually("the metric", || {
        let name = &feed.name;
        let name = format!("limiter_feed_left_out{{feed=\"{name}\",reason=\"leading_zeros\"}}");
        exporter.samples().get(&name) == Some(&1.0)
    });
    assert_eq!(feed.bans().len(), 40);
    end(process, Signal::SIGTERM);
}

#[test]
fn bans_of_a_set_end_when_the_set_says() {
    need_kernel!();
    let hosts = attached();
    let feed = Feed::new(&hosts, "ends");
    let sets = "create good hash:ip family inet\ncreate bad hash:ip family inet timeout 600\nadd good 192.0.2.77\nadd bad 203.0.113.7 timeout 300\nadd bad 203.0.113.8 timeout 0\n";
    let list = feed.write("list", sets);
    feed.configure(&format!("list = '{list}'"));
    feed.once("--once")
        .expect_error(1, &["the sets good, bad", "field"]);
    feed.configure(&format!("list = '{list}'\nfield = 'bad'"));
    feed.once("--once").expect(0);
    let bans = hosts.json("bans eth0 --json");
    let bans = bans["bans"].as_array().unwrap();
    let left: Vec<_> = bans
        .iter()
        .map(|ban| ban["left_seconds"].as_f64())
        .collect();
    assert_eq!(bans.len(), 2, "{bans:?}");
    assert!(left[0] > Some(200.0) && left[0] <= Some(300.0), "{bans:?}");
    assert!(left[1] > Some(80_000.0), "{bans:?}");
}
