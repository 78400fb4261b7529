//! The life of an attachment, and everything that can stand in its way: one line each that says
//! what, why and what to do, and nothing changed.

use std::{
    fs, os::unix::process::CommandExt, path::PathBuf, process::Command, thread, time::Duration,
};

use aya::maps::{Array, MapData};
use limiter_tests::{
    command::{Outcome, binary, limiter},
    hosts::{CLIENT, Hosts},
    need_kernel,
    packet::Frame,
    raw::Raw,
};
use limiter_user::kernel::pins;

/// The folder of pins of the server's `eth0`.
fn folder(hosts: &Hosts) -> PathBuf {
    hosts
        .server
        .namespace
        .run(|| pins::directory("eth0"))
        .unwrap()
        .unwrap()
}

fn program_exists(id: u64) -> bool {
    let mut programs = aya::programs::loaded_programs().flatten();
    programs.any(|program| u64::from(program.id()) == id)
}

/// The kernel frees programs and maps after a grace period.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..200 {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("not within 2 s: {what}");
}

#[test]
fn detach_leaves_no_program_map_link_or_pin() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts
        .limiter(&["attach", "eth0", "--rate", "5", "--burst", "10"])
        .expect(0);
    let status = hosts.status();
    assert_eq!(status["mode"], "native");
    assert_eq!(status["limits"][0]["rate"], "5/s");
    let id = status["program_id"].as_u64().unwrap();
    let program = aya::programs::loaded_programs()
        .flatten()
        .find(|p| u64::from(p.id()) == id);
    let maps = program.unwrap().map_ids().unwrap().unwrap();
    assert!(maps.len() >= 4, "{maps:?}");
    let pins = folder(&hosts);
    assert!(pins.join("link").exists());

    hosts.limiter(&["detach", "eth0"]).expect(0);
    assert!(!pins.exists());
    eventually("the program is gone", || !program_exists(id));
    eventually("the maps are gone", || {
        !aya::maps::loaded_maps()
            .flatten()
            .any(|map| maps.contains(&map.id()))
    });
    hosts
        .limiter(&["detach", "eth0"])
        .expect_error(1, &["not attached"]);
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
}

#[test]
fn pins_are_for_root_alone() {
    need_kernel!();
    use std::os::unix::fs::PermissionsExt;

    let hosts = Hosts::new();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    let mut folders = vec![folder(&hosts)];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700, "{folder:?}");
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                assert_eq!(mode(&path), 0o600, "{path:?}");
                files += 1;
            }
        }
    }
    assert_eq!(files, 7, "link, four maps, program, record");
}

#[test]
fn a_second_attach_is_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    let before = hosts.status();
    let again = hosts.limiter(&["attach", "eth0", "--rate", "6"]);
    again.expect_error(1, &["already", "limiter set eth0", "limiter detach eth0"]);
    assert_eq!(hosts.status(), before);
}

#[test]
fn several_interfaces_at_once_or_none() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = hosts.limiter(&["attach", "eth0", "eth9", "--rate", "5"]);
    attach.expect(1);
    assert!(attach.stderr.contains("eth9"), "{attach:#?}");
    assert_eq!(
        hosts.json(&["status", "--json"])["interfaces"]
            .as_array()
            .unwrap()
            .len(),
        0
    );

    hosts
        .limiter(&["attach", "eth0", "lo", "--rate", "5", "--mode", "generic"])
        .expect(0);
    let status = hosts.json(&["status", "--json"]);
    let names: Vec<_> = status["interfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| &i["name"])
        .collect();
    assert_eq!(names, ["eth0", "lo"]);
    hosts.limiter(&["detach", "--all"]).expect(0);
    assert_eq!(
        hosts.json(&["status", "--json"])["interfaces"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn a_foreign_program_is_named_and_left_alone() {
    need_kernel!();
    let hosts = Hosts::new();
    // Any XDP program will do: this project's own, put there as another tool would.
    let foreign =
        limiter_tests::engine::Kernel::new(&limiter_tests::engine::Limit::new("5/s", "1"));
    let link = hosts.server.namespace.run(|| {
        limiter_user::kernel::link::Link::create(
            foreign.program.fd().unwrap(),
            hosts.server.index,
            limiter_user::kernel::interface::XdpMode::Native,
        )
    });
    let link = link.unwrap().unwrap();
    let attach = hosts.limiter(&["attach", "eth0", "--rate", "5"]);
    attach.expect_error(
        1,
        &[
            "another XDP program",
            "'limiter_frags'",
            "native",
            "ip link set eth0 xdp off",
        ],
    );
    assert_ne!(link.info().unwrap().interface, 0, "it is still there");
    hosts
        .limiter(&["detach", "eth0"])
        .expect_error(1, &["not attached"]);
    assert_ne!(link.info().unwrap().interface, 0, "and stays there");
    drop(link);
    eventually("without it, attach works", || {
        hosts.limiter(&["attach", "eth0", "--rate", "5"]).status == 0
    });
}

#[test]
fn without_privileges() {
    need_kernel!();
    let hosts = Hosts::new();
    // Where anyone may run it.
    let copy = std::env::temp_dir().join(format!("limiter-unprivileged-{}", std::process::id()));
    fs::copy(binary(), &copy).unwrap();
    for arguments in [
        &["attach", "eth0", "--rate", "5"][..],
        &["detach", "eth0"],
        &["set", "eth0", "--rate", "5"],
        &["check", "eth0", "192.0.2.7"],
        &["top", "eth0", "--once"],
        &["reset", "eth0", "--all"],
    ] {
        let output = hosts.server.namespace.run(|| {
            Command::new(&copy)
                .args(arguments)
                .uid(65_534)
                .gid(65_534)
                .output()
        });
        let outcome = Outcome::of(arguments.join(" "), output.unwrap().unwrap());
        outcome.expect_error(1, &["not permitted", "CAP_BPF", "sudo"]);
    }
    fs::remove_file(&copy).unwrap();
}

/// Root without its other capabilities: what a hardened service has.
#[test]
fn with_three_capabilities_alone() {
    need_kernel!();
    let hosts = Hosts::new();
    let limiter = |capabilities: &str, arguments: &[&str]| {
        let output = hosts.server.namespace.run(|| {
            Command::new("setpriv")
                .args(["--bounding-set", capabilities, "--inh-caps", capabilities])
                .arg(binary())
                .args(arguments)
                .output()
        });
        Outcome::of(arguments.join(" "), output.unwrap().unwrap())
    };
    let all_three = "-all,+bpf,+net_admin,+perfmon";
    for arguments in [
        &["attach", "eth0", "--rate", "5"][..],
        &["status", "eth0"],
        &["set", "eth0", "--rate", "6"],
        &["check", "eth0", "192.0.2.7"],
        &["top", "eth0", "--once"],
        &["reset", "eth0", "--all"],
        &["detach", "eth0"],
    ] {
        limiter(all_three, arguments).expect(0);
    }
    for too_few in [
        "-all,+bpf,+net_admin",
        "-all,+bpf,+perfmon",
        "-all,+net_admin,+perfmon",
    ] {
        let refused = limiter(too_few, &["attach", "eth0", "--rate", "5"]);
        refused.expect_error(1, &["CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"]);
    }
}

#[test]
fn on_an_old_kernel() {
    need_kernel!();
    use nix::sys::personality::{Persona, set};

    let hosts = Hosts::new();
    // The kernel shows 2.6.x to a process that asks for it; the personality of this thread is
    // inherited by its children, and by them alone.
    let outcome = hosts.server.namespace.run(|| {
        set(Persona::UNAME26).unwrap();
        limiter(&["attach", "eth0", "--rate", "5"])
    });
    let outcome = outcome.unwrap();
    outcome.expect_error(1, &["this kernel is 2.6", "5.15 or later"]);
    assert!(!folder(&hosts).exists());
}

#[test]
fn what_a_killed_attach_left_is_cleared_by_the_next() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    // Pins without a link: what is left by a process that is killed before its last step.
    fs::remove_file(folder(&hosts).join("link")).unwrap();
    eventually("the kernel has taken the program off", || {
        hosts.json(&["status", "--json"])["interfaces"]
            .as_array()
            .unwrap()
            .is_empty()
            && hosts.limiter(&["attach", "eth0", "--rate", "6"]).status == 0
    });
    assert_eq!(hosts.status()["limits"][0]["rate"], "6/s");
}

#[test]
fn maps_of_another_shape_are_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    let pin = folder(&hosts).join("TABLE");
    fs::remove_file(&pin).unwrap();
    Array::<MapData, [u8; 48]>::create(1, 0)
        .unwrap()
        .pin(&pin)
        .unwrap();
    for arguments in [
        &["status", "eth0"][..],
        &["set", "eth0", "--rate", "6"],
        &["check", "eth0", "192.0.2.7"],
        &["reset", "eth0", "--all"],
    ] {
        hosts
            .limiter(arguments)
            .expect_error(1, &["TABLE", "another shape", "limiter detach eth0"]);
    }
    hosts
        .limiter(&["attach", "eth0", "--rate", "6"])
        .expect_error(1, &["already"]);
    hosts.limiter(&["detach", "eth0"]).expect(0);
    hosts.limiter(&["attach", "eth0", "--rate", "6"]).expect(0);
}

#[test]
fn an_interface_that_vanishes() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    let pins = folder(&hosts);
    let gone = hosts
        .client
        .namespace
        .run(|| Command::new("ip").args(["link", "delete", "eth0"]).status());
    assert!(gone.unwrap().unwrap().success());

    for arguments in [
        &["status", "eth0"][..],
        &["set", "eth0", "--rate", "6"],
        &["check", "eth0", "192.0.2.7"],
        &["top", "eth0", "--once"],
    ] {
        hosts
            .limiter(arguments)
            .expect_error(1, &["eth0", "gone", "limiter detach eth0"]);
    }
    let status = hosts.limiter(&["status"]);
    status.expect(1);
    assert!(status.stderr.contains("limiter detach eth0"), "{status:#?}");

    // A stale pin is in the way of an interface of the same name.
    let made = hosts.server.namespace.run(|| {
        Command::new("ip")
            .args(["link", "add", "eth0", "type", "veth", "peer", "name", "far"])
            .status()
    });
    assert!(made.unwrap().unwrap().success());
    hosts
        .limiter(&["attach", "eth0", "--rate", "5"])
        .expect_error(1, &["gone", "limiter detach eth0"]);
    assert!(pins.exists());
    hosts.limiter(&["detach", "eth0"]).expect(0);
    assert!(!pins.exists());
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
}

#[test]
fn a_renamed_interface_is_found_by_its_new_name() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    let renamed = hosts.server.namespace.run(|| {
        Command::new("ip")
            .args(["link", "set", "eth0", "name", "lan.7"])
            .status()
    });
    assert!(renamed.unwrap().unwrap().success());
    hosts
        .limiter(&["status", "eth0"])
        .expect_error(1, &["'lan.7' now"]);
    assert_eq!(
        hosts.json(&["status", "lan.7", "--json"])["interfaces"][0]["name"],
        "lan.7"
    );
    hosts.limiter(&["set", "lan.7", "--rate", "6"]).expect(0);
    hosts.limiter(&["detach", "lan.7"]).expect(0);
}

#[test]
fn an_interface_that_is_moved_to_another_namespace() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    // The descriptor of the client's namespace, as iproute2 takes it.
    let target = format!("/proc/{}/fd/{}", std::process::id(), {
        use std::os::fd::AsRawFd;
        hosts.client.namespace.file().as_raw_fd()
    });
    let moved = hosts.server.namespace.run(|| {
        let away = Command::new("ip")
            .args(["link", "set", "eth0", "name", "away"])
            .status();
        assert!(away.unwrap().success());
        Command::new("ip")
            .args(["link", "set", "away", "netns", &target])
            .status()
    });
    assert!(moved.unwrap().unwrap().success());
    for arguments in [&["status", "eth0"][..], &["set", "eth0", "--rate", "6"]] {
        hosts
            .limiter(arguments)
            .expect_error(1, &["another network namespace", "limiter detach eth0"]);
    }
    assert!(
        hosts
            .limiter(&["status"])
            .stderr
            .contains("another network namespace")
    );
    hosts.limiter(&["detach", "eth0"]).expect(0);
    assert!(!folder(&hosts).exists());
    let away = hosts
        .client
        .namespace
        .block_on(|| limiter_user::kernel::interface::by_name("away"));
    assert_eq!(away.unwrap().unwrap().xdp, None, "the program is off");
}

#[test]
fn an_interface_with_a_dot_in_its_name() {
    need_kernel!();
    let hosts = Hosts::new();
    let made = hosts.server.namespace.run(|| {
        Command::new("ip")
            .args(["link", "add", "v.1", "type", "veth", "peer", "name", "v.2"])
            .status()
    });
    assert!(made.unwrap().unwrap().success());
    hosts.limiter(&["attach", "v.1", "--rate", "5"]).expect(0);
    assert_eq!(
        hosts.json(&["status", "v.1", "--json"])["interfaces"][0]["name"],
        "v.1"
    );
    hosts.limiter(&["detach", "v.1"]).expect(0);
}

#[test]
fn in_a_mount_namespace_of_ip_netns_exec() {
    need_kernel!();
    // A namespace with a name, as `ip netns` makes it.
    let name = format!("limiter-test-{}", std::process::id());
    let ip = |arguments: &[&str]| {
        assert!(
            Command::new("ip")
                .args(arguments)
                .status()
                .unwrap()
                .success(),
            "ip {arguments:?}"
        );
    };
    ip(&["netns", "add", &name]);
    let in_netns = |arguments: &[&str]| {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &name])
            .arg(binary())
            .args(arguments);
        Outcome::of(arguments.join(" "), command.output().unwrap())
    };
    let attach = in_netns(&["attach", "lo", "--rate", "5"]);
    let status = in_netns(&["status"]);
    let advice = format!("nsenter --net=/run/netns/{name}");
    let as_advised = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{name}"))
        .arg(binary())
        .args(["attach", "lo", "--rate", "5", "--mode", "generic"])
        .output();
    let detached = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{name}"))
        .arg(binary())
        .args(["detach", "--all"])
        .output();
    ip(&["netns", "delete", &name]);
    attach.expect_error(1, &[&advice]);
    status.expect_error(1, &[&advice]);
    Outcome::of("as advised".to_owned(), as_advised.unwrap()).expect(0);
    Outcome::of("detach".to_owned(), detached.unwrap()).expect(0);
}

#[test]
fn modes_are_what_they_are_said_to_be() {
    need_kernel!();
    let hosts = Hosts::new();
    // lo has no native XDP.
    hosts
        .limiter(&["attach", "lo", "--rate", "5", "--mode", "native"])
        .expect_error(1, &["native", "--mode generic"]);
    let attach = hosts.limiter(&["attach", "lo", "--rate", "5"]);
    attach.expect(0);
    assert!(
        attach.stdout.contains("NOT native") && attach.stdout.contains("gro off"),
        "{attach:#?}"
    );
    let status = &hosts.json(&["status", "lo", "--json"])["interfaces"][0];
    assert_eq!(status["mode"], "generic");
    assert!(
        status["fallback"].as_str().unwrap().contains("no XDP"),
        "{status}"
    );
    assert!(
        hosts
            .limiter(&["status", "lo"])
            .stdout
            .contains("NOT native")
    );
    hosts
        .limiter(&["attach", "eth0", "--rate", "5", "--mode", "generic"])
        .expect(0);
    assert_eq!(hosts.status()["mode"], "generic");
    assert_eq!(hosts.status()["fallback"], serde_json::Value::Null);
}

#[test]
fn the_memory_of_the_table_is_fixed_and_shown() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = hosts.limiter(&[
        "attach",
        "eth0",
        "--rate",
        "1/h",
        "--burst",
        "1",
        "--max-sources",
        "100",
    ]);
    attach.expect(0);
    assert!(attach.stdout.contains("100 sources at most"), "{attach:#?}");
    let wire = Raw::open(&hosts.client);
    let memory = hosts.status()["sources"]["memory_bytes"].as_u64().unwrap();
    assert!(memory > 100 * 100, "{memory}");
    for i in 0..1_000_u32 {
        let source = std::net::IpAddr::V4((0x0a00_0000 + i).into());
        wire.send(
            &Frame {
                macs: (hosts.client.mac, hosts.server.mac),
                ..Frame::from(source)
            }
            .bytes(),
        );
    }
    thread::sleep(Duration::from_millis(200));
    let status = hosts.status();
    assert_eq!(
        status["sources"]["memory_bytes"].as_u64(),
        Some(memory),
        "not a byte more"
    );
    assert_eq!(status["sources"]["tracked"], 100);
    assert_eq!(status["packets"]["passed"], 100);
    assert_eq!(
        status["drops"]["newcomer"], 900,
        "live buckets are not given up for new ones"
    );
    assert!(
        hosts
            .limiter(&["status", "eth0"])
            .stdout
            .contains("larger --max-sources")
    );
}

/// A source that was reset and comes back takes no second place.
#[test]
fn reset_loses_no_places() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts
        .limiter(&[
            "attach",
            "eth0",
            "--rate",
            "1/h",
            "--burst",
            "9",
            "--max-sources",
            "2",
        ])
        .expect(0);
    let wire = Raw::open(&hosts.client);
    let send = |last: u8| {
        let source = std::net::IpAddr::from([192, 0, 2, last]);
        let macs = (hosts.client.mac, hosts.server.mac);
        wire.send(
            &Frame {
                macs,
                ..Frame::from(source)
            }
            .bytes(),
        );
    };
    for _ in 0..5 {
        send(7);
        thread::sleep(Duration::from_millis(50));
        hosts.limiter(&["reset", "eth0", "192.0.2.7"]).expect(0);
    }
    send(7);
    send(8);
    thread::sleep(Duration::from_millis(100));
    let status = hosts.status();
    assert_eq!(status["sources"]["tracked"], 2, "{status}");
    assert_eq!(status["packets"]["passed"], 7, "{status}");
    assert_eq!(status["drops"]["newcomer"], 0, "{status}");
}

/// The old name of a renamed interface, given to another one.
#[test]
fn a_name_that_is_taken() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    let ip = |arguments: &[&str]| {
        let run = || Command::new("ip").args(arguments).status();
        assert!(
            hosts.server.namespace.run(run).unwrap().unwrap().success(),
            "{arguments:?}"
        );
    };
    ip(&["link", "set", "eth0", "name", "wan9"]);
    ip(&["link", "add", "eth0", "type", "veth", "peer", "name", "far"]);
    hosts
        .limiter(&["attach", "eth0", "--rate", "5"])
        .expect_error(1, &["'wan9'", "limiter detach wan9"]);
    hosts.limiter(&["detach", "wan9"]).expect(0);
    hosts.limiter(&["attach", "wan9", "--rate", "5"]).expect(0);
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    hosts.limiter(&["detach", "eth0", "wan9"]).expect(0);
}

/// Every way to write a burst reads back, or later commands could not.
#[test]
fn what_attach_takes_status_understands() {
    need_kernel!();
    let hosts = Hosts::new();
    for (rate, burst) in [
        ("8kbit", "2000"),
        ("1.5mbit", "1mb"),
        ("5", "1.5k"),
        ("10/6s", "1000"),
        ("1gbit", "1500000b"),
        ("300/1m", "1"),
    ] {
        hosts
            .limiter(&["attach", "eth0", "--rate", rate, "--burst", burst])
            .expect(0);
        assert_eq!(hosts.status()["mode"], "native", "{rate} {burst}");
        hosts.limiter(&["set", "eth0", "--shadow", "on"]).expect(0);
        hosts.limiter(&["detach", "eth0"]).expect(0);
    }
}

#[test]
fn a_source_is_shown_and_forgotten() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts
        .limiter(&["attach", "eth0", "--rate", "1/h", "--burst", "3"])
        .expect(0);
    let check = || hosts.json(&["check", "eth0", "192.0.2.2", "--json"])["limits"][0].clone();
    assert_eq!(check()["tracked"], false);
    assert_eq!(check()["tokens"], 3.0);
    let wire = Raw::open(&hosts.client);
    let frame = Frame {
        macs: (hosts.client.mac, hosts.server.mac),
        ..Frame::from(CLIENT)
    }
    .bytes();
    (0..5).for_each(|_| wire.send(&frame));
    thread::sleep(Duration::from_millis(100));
    let checked = check();
    assert_eq!(
        (&checked["passed"], &checked["dropped"]),
        (&3.into(), &2.into()),
        "{checked}"
    );
    assert!(checked["tokens"].as_f64().unwrap() < 0.01, "{checked}");
    let wait = checked["retry_after_seconds"].as_f64().unwrap();
    assert!((3_500.0..=3_600.0).contains(&wait), "{checked}");

    let top = hosts.json(&["top", "eth0", "--once", "--json"]);
    assert_eq!(top["sources"][0]["source"], "192.0.2.2");
    assert_eq!(top["sources"][0]["dropped"], 2);

    hosts.limiter(&["reset", "eth0", "192.0.2.2"]).expect(0);
    assert_eq!(check()["tracked"], false);
    (0..5).for_each(|_| wire.send(&frame));
    thread::sleep(Duration::from_millis(100));
    assert_eq!(check()["passed"], 3);
    let reset = hosts.limiter(&["reset", "eth0", "--all"]);
    reset.expect(0);
    assert!(reset.stdout.contains("1 sources"), "{reset:#?}");
    assert_eq!(check()["tracked"], false);
    assert_eq!(
        hosts.status()["packets"]["passed"],
        6,
        "the interface's figures go on"
    );
}
