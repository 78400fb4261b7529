//! The agent of a fleet works as root, and as a user with three capabilities.

use std::{fs, io::Write, os::unix::fs::PermissionsExt};

use limiter_tests::{
    command::prepared,
    eventually,
    exporter::{Exporter, loopback_up},
    fleet::Agent,
    hosts::{Hosts, on},
    need_kernel, need_program, need_redis,
    processes::status_of,
    redis::{Redis, Setup, certificates},
};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{
    sandbox::{KEPT, bits},
    unprivileged::{CAPABILITIES, Copy, USER, delegate, setpriv},
};

const TEXT: &str = "interfaces = [\"eth0\"]\nfleet = \"edge\"\n[lists]\ndeny = { scope = \"fleet\" }\n\
    bans = { scope = \"fleet\" }\n\
    [[limit]]\nname = \"all\"\nrate = \"10/s\"\nscope = \"fleet\"\n";

/// Panics unless the agent has exactly the capabilities it needs.
fn expect_confined(agent: &Agent) {
    let process = agent.process();
    for set in ["CapPrm", "CapEff"] {
        assert_eq!(bits(process, set) & !KEPT, 0, "{set}");
        assert_ne!(bits(process, set), 0, "{set}");
    }
    for set in ["CapInh", "CapAmb"] {
        assert_eq!(bits(process, set), 0, "{set}");
    }
    assert_eq!(status_of(process, "NoNewPrivs"), "1");
}

fn store<'h>(hosts: &'h Hosts, tls: Option<std::path::PathBuf>) -> Redis<'h> {
    loopback_up(&hosts.server);
    Redis::start_as(Setup {
        host: Some(&hosts.server.namespace),
        tls,
        ..Setup::default()
    })
}

/// The agent uses TLS and a host name, and reads an authority file at each connection, even after it is confined.
#[test]
fn root_agent_keeps_only_the_privileges_it_needs() {
    need_kernel!();
    need_redis!();
    let hosts = Hosts::new();
    let certificates = certificates("127.0.0.1");
    let mut store = store(&hosts, Some(certificates.path().to_owned()));
    let url = format!("rediss://127.0.0.1:{}", store.port);
    let mut command = prepared(&["agent", "--store", &url]);
    let of_host = |name: &str| certificates.path().join(name);
    // Makes the authority one of the system's.
    command.env("SSL_CERT_FILE", of_host("ca.pem"));
    command.env_remove("SSL_CERT_DIR");
    let agent = on(&hosts.server, || Agent::run(command));
    hosts.attach_file(TEXT);
    let shared = || hosts.status()["fleet"]["error"].is_null();
    eventually("the agent shares", shared);
    expect_confined(&agent);
    assert_eq!(bits(agent.process(), "CapBnd"), 0);
    // Metrics are exported with the store, and without it.
    let exporter = Exporter::start(&hosts.server);
    let sample = |name: &str| exporter.samples().get(name).copied();
    let of_interface = |name: &str| sample(&format!("limiter_fleet_{name}{{interface=\"eth0\"}}"));
    eventually("the store is up", || of_interface("store_up") == Some(1.0));
    assert_eq!(of_interface("hosts"), Some(1.0));
    assert_eq!(of_interface("conflicts"), Some(0.0));
    assert!(of_interface("staleness_seconds").is_some_and(|seconds| seconds > 0.0));
    let overshoot = "limiter_fleet_overshoot_packets{interface=\"eth0\",limit=\"all\"}";
    assert_eq!(sample(overshoot), Some(0.0), "alone");
    store.stop();
    eventually("the store is gone", || {
        of_interface("store_up") == Some(0.0)
    });
    // A stopped agent delays no other command.
    agent.signal(Signal::SIGSTOP);
    eventually("the agent is silent", || {
        of_interface("staleness_seconds").is_none() && of_interface("store_up") == Some(0.0)
    });
    let took = sample("limiter_collection_duration_seconds").unwrap();
    assert!(took < 5.0, "{took}");
    agent.signal(Signal::SIGCONT);
    // The agent continues, and reads the certificates and the lists again.
    store.go_on();
    eventually("the agent shares again", shared);
    hosts.run("deny add eth0 203.0.113.8");
    let shown = hosts.limiter("deny list eth0").stdout;
    assert!(shown.starts_with("203.0.113.8  # by "), "{shown}");
    expect_confined(&agent);
}

#[test]
fn agent_runs_for_a_user_with_three_capabilities() {
    need_kernel!();
    need_redis!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    let limiter = Copy::new();
    let store = store(&hosts, None);
    let file = limiter.folder().join("limits.toml");
    let mut text = fs::File::create(&file).unwrap();
    text.write_all(TEXT.as_bytes()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let url = format!("redis://localhost:{}", store.port);
    let run = || {
        delegate();
        limiter.done(&["attach", "eth0", "--config", file.to_str().unwrap()]);
        let agent = Agent::run(limiter.command(CAPABILITIES, &["agent", "--store", &url]));
        let fleet = || {
            let status: Value = limiter.json("status eth0 --json");
            status["interfaces"][0]["fleet"].clone()
        };
        eventually("the agent shares", || {
            fleet()["error"].is_null() && fleet()["staleness_seconds"].is_f64()
        });
        expect_confined(&agent);
        limiter.done("deny add eth0 203.0.113.7");
        let list = limiter.done("deny list eth0").stdout;
        assert!(list.starts_with("203.0.113.7  # by "), "{list}");
        limiter.done("ban eth0 203.0.113.8 --for 1h");
        let bans: Value = limiter.json("bans eth0 --json");
        assert_eq!(bans["bans"][0]["origin"], "fleet", "{bans}");
        // A user other than the agent's gets no answer, even with equal capabilities and paths.
        let mut other = setpriv(USER + 1, "-all");
        other.args([
            "sh",
            "-c",
            "exec timeout 5 \"$1\" deny add eth0 203.0.113.9",
            "sh",
        ]);
        let done = other
            .arg(limiter.folder().join("limiter"))
            .output()
            .unwrap();
        assert!(!done.status.success(), "{done:?}");
        assert_eq!(limiter.done("deny list eth0").stdout.lines().count(), 1);
        drop(agent);
        limiter.done("detach eth0");
    };
    hosts.server.namespace.run(run).unwrap();
}
