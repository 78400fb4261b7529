//! A feed leaves out what would cut the host off, and says so.

use std::{fs, net::IpAddr, time::Duration};

use limiter_tests::{
    command::{ip, prepared},
    eventually,
    exporter::{Exporter, loopback_up},
    feeds::{Feed, Server, end},
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER, SERVER_IPV6, on},
    need_kernel, number,
    testbed::Address,
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::signal::Signal,
};

use super::attached;

/// An address of the client, as that of a web server.
const SOURCE: &str = "192.0.2.9";

/// Hosts whose client has a second address, and is the default gateway of the server.
fn with_source_and_gateway() -> Hosts {
    let source: IpAddr = SOURCE.parse().unwrap();
    let server = [Address(SERVER, 24), Address(SERVER_IPV6, 64)];
    let client = [CLIENT, source].map(|address| Address(address, 24));
    let [first, other] = client;
    let client = [first, other, Address(CLIENT_IPV6, 64)];
    let hosts = Hosts::with(&server, &client);
    loopback_up(&hosts.server);
    for gateway in [CLIENT, CLIENT_IPV6] {
        let line = format!("route add default via {gateway}");
        ip(&hosts.server.namespace, &line);
    }
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    hosts
}

#[test]
fn feed_whose_list_has_its_own_source_goes_on() {
    need_kernel!();
    let hosts = with_source_and_gateway();
    let server = Server::start_at(&hosts.client, &format!("{SOURCE}:0"));
    let feed = Feed::new(&hosts, "source");
    let url = format!("http://{SOURCE}:{}/", server.port);
    server.body("", &format!("203.0.113.7\n{SOURCE}\n"));
    feed.configure(&format!("list = '{url}'\ninterval = '1s'"));
    let process = feed.start(Duration::from_secs(60));
    eventually("the ban", || feed.bans() == ["203.0.113.7"]);
    server.body("", "203.0.113.8\n192.0.2.8/31\n");
    // The rest of a network is banned.
    eventually("the next list", || {
        feed.bans() == ["192.0.2.8", "203.0.113.8"]
    });
    eventually("it says so", || {
        feed.said()
            .contains("192.0.2.8/31 covers 192.0.2.9, the feed's own source")
    });
    assert!(feed.said().contains("192.0.2.9 is the feed's own source"));
    let asked = server.asked.lock().unwrap().len();
    eventually("further rounds", || {
        server.asked.lock().unwrap().len() > asked + 1
    });
    end(process, Signal::SIGTERM);
}

#[test]
fn gateway_resolver_and_own_addresses_are_left_out_and_counted() {
    need_kernel!();
    let hosts = with_source_and_gateway();
    let feed = Feed::new(&hosts, "needed");
    let resolver = feed.write("resolv.conf", "nameserver 198.51.100.53\n");
    let list = feed.write(
        "list",
        "203.0.113.7\n192.0.2.2\n192.0.2.0/31\n198.51.100.0/24\n127.0.0.0/8\n198.51.101.0/24\n2001:db8::2\n",
    );
    let file = feed.configure(&format!("list = '{list}'"));
    let once = || {
        on(&hosts.server, || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let none: Option<&str> = None;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(none, "/", none, private, none).unwrap();
            let bind = MsFlags::MS_BIND;
            mount(Some(&*resolver), "/etc/resolv.conf", none, bind, none).unwrap();
            prepared(&["feed", &*file, "--once"]).output().unwrap()
        })
    };
    let said = String::from_utf8(once().stderr).unwrap();
    let rest = [
        "0/27", "128/25", "32/28", "48/30", "52", "54/31", "56/29", "64/26",
    ];
    let rest = rest.map(|part| format!("198.51.100.{part}"));
    let mut wanted: Vec<_> = rest.to_vec();
    wanted.extend(["192.0.2.0", "198.51.101.0/24", "203.0.113.7"].map(str::to_owned));
    let mut bans = feed.bans();
    bans.sort();
    wanted.sort();
    assert_eq!(bans, wanted, "{said}");
    for words in [
        "3 entries are left out (would cut this host off), the first: 127.0.0.0/8 covers 127.0.0.1, an address of this host",
        "2 entries are left out (in part, or they would cut this host off), the first: 192.0.2.0/31 covers 192.0.2.1, an address of this host",
    ] {
        assert!(said.contains(words), "{said}");
    }
    // A second round changes nothing.
    let said = String::from_utf8(once().stderr).unwrap();
    assert!(
        said.contains("eth0: bans added: 0, renewed: 0, removed: 0"),
        "{said}"
    );

    // Each round looks anew: another gateway, and the addresses of before are free.
    ip(
        &hosts.server.namespace,
        "route replace default nexthop via 192.0.2.9 nexthop via 192.0.2.10",
    );
    feed.write(
        "list",
        "192.0.2.2\n192.0.2.9\n192.0.2.10\n203.0.113.7\n198.51.101.0/24\n",
    );
    let exporter = Exporter::start(&hosts.server);
    let process = feed.start(Duration::from_secs(60));
    eventually("the other gateway", || {
        feed.bans() == ["192.0.2.2", "198.51.101.0/24", "203.0.113.7"]
    });
    eventually("the state", || feed.left_out("protected") == 2);
    let sample = |reason: &str| {
        let name = &feed.name;
        let name = format!("limiter_feed_left_out{{feed=\"{name}\",reason=\"{reason}\"}}");
        exporter.samples().get(&name).copied()
    };
    eventually("the metric", || sample("protected") == Some(2.0));
    assert_eq!(sample("invalid"), Some(0.0));
    let words = "2 entries are left out (would cut this host off), the first: 192.0.2.9 is the default gateway";
    assert!(hosts.run("status").contains(words));
    end(process, Signal::SIGTERM);
}

#[test]
fn ban_by_hand_of_the_gateway_is_made_with_a_warning() {
    need_kernel!();
    let hosts = with_source_and_gateway();
    let warned = hosts.limiter("ban eth0 203.0.113.7 192.0.2.2");
    warned.expect(0);
    for words in [
        "WARNING: 192.0.2.2 is the default gateway",
        "limiter unban eth0 192.0.2.2",
    ] {
        assert!(warned.stderr.contains(words), "{warned:?}");
    }
    let bans = hosts.json("bans eth0 --json");
    assert_eq!(bans["bans"].as_array().unwrap().len(), 2, "{bans}");
    let quiet = hosts.limiter("ban eth0 203.0.113.8");
    assert_eq!(quiet.stderr, "", "{quiet:?}");
    hosts.run("allow add eth0 192.0.2.2");
    let allowed = hosts.limiter("ban eth0 192.0.2.2");
    assert!(!allowed.stderr.contains("WARNING"), "{allowed:?}");
}

#[test]
fn list_that_covers_a_large_part_of_the_internet_is_refused() {
    need_kernel!();
    let hosts = attached();
    let feed = Feed::new(&hosts, "large");
    let many: String = (20..120).map(|net| format!("{net}.0.0.0/8\n")).collect();
    let list = feed.write("list", &many);
    feed.configure(&format!("list = '{list}'"));
    let refused = feed.once("--once");
    refused.expect_error(1, &[&list, "39.1 % of all IPv4", "write max-coverage = 40"]);
    assert_eq!(feed.bans(), [""; 0]);
    let ipv6: String = (10..99).map(|net| format!("2a{net}::/16\n")).collect();
    feed.write("list", &ipv6);
    feed.once("--once")
        .expect_error(1, &["max-coverage = 2", "/48"]);
    feed.write("list", &many);
    feed.configure(&format!("list = '{list}'\nmax-coverage = 40"));
    feed.once("--once").expect(0);
    assert_eq!(feed.bans().len(), 100);
    // A large list of addresses is none of that kind.
    let many: String = (0..20_000)
        .map(|n| format!("100.64.{}.{}\n", n / 250, n % 250))
        .collect();
    fs::write(&list, many).unwrap();
    feed.configure(&format!("list = '{list}'\nmax-change = 100000"));
    feed.once("--once").expect(0);
    assert_eq!(
        number(&hosts.status()["bans"]["by_origin"][&feed.name]),
        20_000
    );
}
