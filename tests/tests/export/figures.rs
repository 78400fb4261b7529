//! The exported counters equal the program's counters through all changes of the attachment.

use std::{collections::BTreeSet, net::Ipv4Addr, thread, time::Instant};

use aya::maps::{MapData, PerCpuArray, PerCpuValues};
use limiter_common::{abi::counters::Counters, policy::verdict::Reason};
use limiter_tests::{
    command::ip, eventually, exporter::Exporter, hosts::Hosts, need_kernel, number, raw::Raw,
    traffic::udp,
};
use limiter_user::kernel::program::raw;
use serde_json::{Value, json};

/// Sends `count` packets from `source`, and waits until `status` counts all.
fn send(hosts: &Hosts, source: Ipv4Addr, count: u64) {
    let (wire, frame) = (Raw::open(&hosts.client), udp(hosts, source.into(), 9));
    let seen = || number(&hosts.status()["seen"]["packets"]);
    let before = seen();
    (0..count).for_each(|_| wire.send(&frame));
    eventually("limiter has counted all packets", || {
        seen() == before.wrapping_add(count)
    });
}

fn source(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, host)
}

/// Waits until the exporter reports `value`. It caches readings for a second.
fn expect(exporter: &Exporter<'_>, sample: &str, value: f64) {
    let found = || exporter.samples().get(sample).copied();
    eventually(&format!("{sample} is {value}"), || found() == Some(value));
}

#[test]
fn exported_counters_match_the_commands() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = ['eth0']\n[lists]\ndeny = ['203.0.113.66']\nallow = ['203.0.113.77']\n\
         [[limit]]\nname = 'all'\nrate = '1/h'\nburst = 4\n\
         [[limit]]\nname = 'watched'\nrate = '1/h'\nburst = 3\nshadow = true\n",
    );
    let exporter = Exporter::start(&hosts.server);
    send(&hosts, source(1), 10);
    send(&hosts, source(2), 7);
    send(&hosts, source(66), 5);
    send(&hosts, source(77), 2);

    let of_eth0 =
        |name: &str, labels: &str| format!("limiter_{name}{{interface=\"eth0\"{labels}}}");
    expect(&exporter, &of_eth0("drops_total", ",reason=\"deny\""), 5.0);
    let samples = exporter.samples();
    let expect_all = |name: &str, samples_of: &[(&str, f64)]| {
        for (labels, value) in samples_of {
            let name = of_eth0(name, labels);
            assert_eq!(samples.get(&name), Some(value), "{name}: {samples:#?}");
        }
    };
    expect_all("drops_total", &[(",reason=\"limit\"", 6.0 + 3.0)]);
    // The fourth packet of each source is over a limit in shadow, and passes.
    expect_all(
        "packets_total",
        &[
            (",limit=\"all\",verdict=\"drop\"", 6.0 + 3.0),
            (",limit=\"all\",verdict=\"pass\"", 8.0),
            (",limit=\"all\",verdict=\"would_drop\"", 0.0),
            (",limit=\"watched\",verdict=\"pass\"", 6.0),
            (",limit=\"watched\",verdict=\"would_drop\"", 2.0),
            (",limit=\"watched\",verdict=\"drop\"", 0.0),
        ],
    );
    expect_all(
        "interface_packets_total",
        &[
            (",verdict=\"pass\"", 8.0),
            (",verdict=\"would_drop\"", 2.0),
            (",verdict=\"drop\"", 14.0),
        ],
    );
    expect_all("passes_total", &[(",reason=\"allowed\"", 2.0)]);
    expect_all("list_packets_total", &[(",list=\"deny\"", 5.0)]);
    expect_all("sources", &[("", 4.0)]);
    expect_all("new_sources_total", &[("", 4.0)]);
    expect_all("sources_capacity", &[("", 65_536.0)]);
    let ranks = [(",rank=\"1\"", 6.0), (",rank=\"2\"", 3.0)];
    expect_all("top_dropped_packets", &ranks);
    expect_all("events_lost_total", &[("", 0.0)]);
    assert_eq!(samples["limiter_unreadable_attachments"], 0.0);
    let status = hosts.status();
    let info = format!(",mode=\"native\",program_id=\"{}\"", status["program_id"]);
    expect_all("attached_info", &[(&info, 1.0)]);

    let mut exported = exporter.json("/api/status");
    assert_eq!(exported["errors"].take(), json!([]));
    assert_eq!(exported["interfaces"], json!([status]));
    assert_eq!(
        at_one_moment(exporter.json("/api/top/eth0")),
        at_one_moment(hosts.json(&["top", "eth0", "--once", "--json"]))
    );
    assert_eq!(exporter.ask("GET", "/api/top/eth1", "").status, 404);
}

/// Removes rates, which the exporter omits, and tokens, which are refilled meanwhile.
fn at_one_moment(mut top: Value) -> Value {
    top["interval_seconds"].take();
    for lines in ["sources", "denied", "other_drops"] {
        for line in top[lines].as_array_mut().unwrap() {
            let line = line.as_object_mut().unwrap();
            line.retain(|key, _| key != "tokens" && !key.ends_with("_per_second"));
        }
    }
    top
}

#[test]
fn sources_add_no_metric_series() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let exporter = Exporter::start(&hosts.server);
    let names = || exporter.samples().into_keys().collect::<BTreeSet<_>>();
    let before = names();
    (1..=60).for_each(|host| send(&hosts, source(host), 2));
    expect(&exporter, "limiter_sources{interface=\"eth0\"}", 60.0);
    let new: Vec<_> = names().difference(&before).cloned().collect();
    let ranks = (1..=10)
        .map(|rank| format!("limiter_top_dropped_packets{{interface=\"eth0\",rank=\"{rank}\"}}"));
    assert_eq!(
        new.iter().collect::<BTreeSet<_>>(),
        ranks.collect::<Vec<_>>().iter().collect()
    );
    assert!(!exporter.get("/metrics").contains("203.0."), "an address");
    assert!(
        exporter.get("/api/top/eth0").contains("203.0.113."),
        "no address on the page"
    );
}

fn counters(hosts: &Hosts) -> PerCpuArray<MapData, raw::Raw<Counters>> {
    let map = MapData::from_pin(hosts.pins().join("COUNTED")).unwrap();
    PerCpuArray::try_from(aya::maps::Map::PerCpuArray(map)).unwrap()
}

#[test]
fn exported_counters_wrap_and_restart() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = || hosts.run("attach eth0 --rate 1/h --burst 1");
    // The sum of all reasons wraps earlier than each of them.
    const DENIED: u64 = 5;
    attach();
    send(&hosts, source(1), 3);
    let mut map = counters(&hosts);
    let of_cpus = map.get(&0, 0).unwrap();
    // Sets the counters of each CPU that has counted drops to five packets before they wrap.
    let (mut total, mut all_denied) = (0_u64, 0);
    let set: Vec<_> = of_cpus
        .iter()
        .map(|raw::Raw(counters)| {
            let mut counters = *counters;
            let [dropped, denied] = [Reason::Limit, Reason::Deny].map(|reason| reason as usize);
            let by_reason = &mut counters.by_reason;
            if by_reason[dropped].packets > 0 {
                by_reason[dropped].packets = u64::MAX - 4;
                by_reason[denied].packets = DENIED;
                total = total.wrapping_add(u64::MAX - 4);
                all_denied += DENIED;
            }
            raw::Raw(counters)
        })
        .collect();
    map.set(0, PerCpuValues::try_from(set).unwrap(), 0).unwrap();
    let exporter = Exporter::start(&hosts.server);
    let dropped = "limiter_drops_total{interface=\"eth0\",reason=\"limit\"}";
    expect(&exporter, dropped, total as f64);
    send(&hosts, source(1), 8);
    let wrapped = total.wrapping_add(8);
    assert!(wrapped < total);
    expect(&exporter, dropped, wrapped as f64);
    // The sum is the sum of the program's counters modulo 2^64.
    let status = exporter.json("/api/status");
    let of = |name: &str| number(&status["interfaces"][0][name]["packets"]);
    assert_eq!(of("dropped"), wrapped.wrapping_add(all_denied));
    assert_eq!(of("seen"), of("passed").wrapping_add(of("dropped")));

    hosts.run("detach eth0");
    attach();
    expect(&exporter, dropped, 0.0);
}

#[test]
fn exporter_follows_detach_attach_and_a_removed_interface() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    let attached = "limiter_fallback{interface=\"eth0\"}";
    assert!(!exporter.samples().contains_key(attached));
    assert_eq!(exporter.json("/api/status")["interfaces"], json!([]));
    let attach = |rate| hosts.limiter(&["attach", "eth0", "--rate", rate]).expect(0);
    let passed = "limiter_packets_total{interface=\"eth0\",limit=\"default\",verdict=\"pass\"}";
    for round in 1..=3 {
        attach("1000/s");
        send(&hosts, source(1), round);
        expect(&exporter, passed, round as f64);
        // The reload makes another program and another generation of pins.
        hosts.run("set eth0 --rate 2000/s");
        send(&hosts, source(1), 2);
        expect(&exporter, passed, (round + 2) as f64);
        hosts.run("detach eth0");
        eventually("it has gone", || !exporter.samples().contains_key(attached));
    }
    attach("10/s");
    expect(&exporter, attached, 0.0);
    ip(&hosts.server.namespace, "link delete eth0");
    expect(&exporter, "limiter_unreadable_attachments", 1.0);
    assert!(!exporter.samples().contains_key(attached));
    let errors = exporter.json("/api/status")["errors"].to_string();
    assert!(errors.contains("eth0"), "{errors}");
    assert_eq!(exporter.get("/healthz"), "ok\n");
}

#[test]
fn concurrent_requests_share_a_reading() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 10/s");
    let exporter = Exporter::start(&hosts.server);
    let start = Instant::now();
    let asks = || {
        let ask = |_| exporter.ask("GET", "/api/status", "").headers["limiter-read-at-ms"].clone();
        (0..20).map(ask).collect::<Vec<String>>()
    };
    let read: Vec<_> = thread::scope(|scope| {
        let asking: Vec<_> = (0..16).map(|_| scope.spawn(asks)).collect();
        let read = asking.into_iter().flat_map(|thread| thread.join().unwrap());
        read.collect()
    });
    assert_eq!(read.len(), 320);
    let readings = read.iter().collect::<BTreeSet<_>>().len() as u64;
    // The exporter had a reading at the start. Each further reading is at least a second later.
    let most = 2 + start.elapsed().as_secs();
    assert!(readings <= most, "{readings} readings, and {most} at most");
}

/// 2,000 scrapes, as many as Prometheus makes in eight hours.
#[test]
fn exporter_memory_does_not_grow() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    (1..=20).for_each(|host| send(&hosts, source(host), 2));
    let exporter = Exporter::start(&hosts.server);
    let scrape = |count: u32| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..count / 4).for_each(|_| drop(exporter.samples())));
            }
        });
    };
    // After these scrapes, the exporter has allocated all memory that it keeps.
    scrape(400);
    let (memory, descriptors) = (exporter.memory(), exporter.descriptors());
    scrape(2_000);
    let grown = exporter.memory().saturating_sub(memory);
    assert!(grown < 1 << 20, "{grown} bytes more than {memory}");
    eventually("no descriptor is left open", || {
        exporter.descriptors() <= descriptors
    });
}
