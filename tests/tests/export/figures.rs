//! The exported counters equal the program's counters through all changes of the attachment.

use std::{collections::BTreeSet, net::Ipv4Addr, thread, time::Instant};

use limiter_tests::{
    command::ip, eventually, exporter::Exporter, hosts::Hosts, need_kernel, number,
    traffic::Traffic,
};
use serde_json::{Value, json};

fn source(host: u8) -> String {
    Ipv4Addr::new(203, 0, 113, host).to_string()
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
    let traffic = Traffic::new(&hosts);
    for (host, count) in [(1, 10), (2, 7), (66, 5), (77, 2)] {
        traffic.passed(&source(host), count);
    }
    hosts.run("ban eth0 203.0.113.88");
    let status = hosts.status();
    let program = format!(",mode=\"native\",program_id=\"{}\"", status["program_id"]);
    expect(
        &exporter,
        "limiter_drops_total{interface=\"eth0\",reason=\"deny\"}",
        5.0,
    );
    let samples = exporter.samples();
    for (name, labels, value) in [
        ("drops_total", ",reason=\"limit\"", 6.0 + 3.0),
        // The fourth packet of each source is over a limit in shadow, and passes.
        ("packets_total", ",limit=\"all\",verdict=\"drop\"", 9.0),
        ("packets_total", ",limit=\"all\",verdict=\"pass\"", 8.0),
        (
            "packets_total",
            ",limit=\"all\",verdict=\"would_drop\"",
            0.0,
        ),
        ("packets_total", ",limit=\"watched\",verdict=\"pass\"", 6.0),
        (
            "packets_total",
            ",limit=\"watched\",verdict=\"would_drop\"",
            2.0,
        ),
        ("interface_packets_total", ",verdict=\"pass\"", 8.0),
        ("interface_packets_total", ",verdict=\"would_drop\"", 2.0),
        ("interface_packets_total", ",verdict=\"drop\"", 14.0),
        ("passes_total", ",reason=\"allowed\"", 2.0),
        ("list_packets_total", ",list=\"deny\"", 5.0),
        ("bans", ",origin=\"hand\"", 1.0),
        ("sources", "", 4.0),
        ("new_sources_total", "", 4.0),
        ("sources_capacity", "", 65_536.0),
        ("top_dropped_packets", ",rank=\"1\"", 6.0),
        ("top_dropped_packets", ",rank=\"2\"", 3.0),
        ("events_lost_total", "", 0.0),
        ("attached_info", &program, 1.0),
    ] {
        let name = format!("limiter_{name}{{interface=\"eth0\"{labels}}}");
        assert_eq!(samples.get(&name), Some(&value), "{name}: {samples:#?}");
    }
    assert_eq!(samples["limiter_unreadable_attachments"], 0.0);
    let mut exported = exporter.json("/api/status");
    assert_eq!(exported["errors"], json!([]));
    assert_eq!(exported["interfaces"], json!([status]));
    assert_eq!(
        at_one_moment(exported["tops"][0].take()),
        at_one_moment(hosts.json("top eth0 --once --json"))
    );
}

/// Removes rates, which the exporter omits, and tokens, which are refilled meanwhile.
fn at_one_moment(mut top: Value) -> Value {
    top["interval_seconds"].take();
    for lines in ["sources", "other_drops"] {
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
    let traffic = Traffic::new(&hosts);
    for host in 1..=20 {
        traffic.passed(&source(host), 2);
    }
    expect(&exporter, "limiter_sources{interface=\"eth0\"}", 20.0);
    let new: BTreeSet<_> = names().difference(&before).cloned().collect();
    let ranks = (1..=10)
        .map(|rank| format!("limiter_top_dropped_packets{{interface=\"eth0\",rank=\"{rank}\"}}"));
    assert_eq!(new, ranks.collect());
    assert!(!exporter.get("/metrics").contains("203.0."), "an address");
}

#[test]
fn exporter_follows_detach_attach_and_a_removed_interface() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    let attached = "limiter_fallback{interface=\"eth0\"}";
    assert!(!exporter.samples().contains_key(attached));
    assert_eq!(exporter.json("/api/status")["interfaces"], json!([]));
    let traffic = Traffic::new(&hosts);
    let passed = "limiter_packets_total{interface=\"eth0\",limit=\"default\",verdict=\"pass\"}";
    for round in 1..=2_u32 {
        hosts.run("attach eth0 --rate 1000/s");
        traffic.passed(&source(1), round.into());
        expect(&exporter, passed, round.into());
        // The reload makes another program and another generation of pins.
        hosts.run("set eth0 --rate 2000/s");
        traffic.passed(&source(1), 2);
        expect(&exporter, passed, (round + 2).into());
        hosts.run("detach eth0");
        eventually("it has gone", || !exporter.samples().contains_key(attached));
    }
    hosts.run("attach eth0 --rate 10/s");
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
    let ask = |_| number(&exporter.json("/api/status")["read_at_ms"]);
    let read: Vec<u64> = thread::scope(|scope| {
        let asks = || (0..20).map(ask).collect::<Vec<_>>();
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
    let traffic = Traffic::new(&hosts);
    for host in 1..=20 {
        traffic.passed(&source(host), 2);
    }
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
