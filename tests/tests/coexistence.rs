//! limiter and programs that libxdp loads (`xdp-loader`, `xdp-filter`): each tool names the other one's program and
//! leaves it alone, and `--hook tc` limits behind it.

use std::{
    env::consts::ARCH,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use limiter_tests::{
    command::Outcome,
    foreign::on_server,
    hosts::{CLIENT, Hosts, on},
    need, need_kernel, need_program, number,
    raw::Raw,
};

/// A program of xdp-tools that passes all packets unless it is configured.
const PROGRAM: &str = "xdpfilt_alw_all";
const ATTACH: [&str; 6] = ["attach", "eth0", "--rate", "1/h", "--burst", "6"];

/// Held by the test that uses xdp-loader: only one at a time can run on a machine.
fn alone() -> MutexGuard<'static, ()> {
    static LOADER: Mutex<()> = Mutex::new(());
    LOADER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn loader(hosts: &Hosts, arguments: &[&str]) -> Outcome {
    let run = || Command::new("xdp-loader").args(arguments).output();
    Outcome::of(
        format!("xdp-loader {}", arguments.join(" ")),
        on(&hosts.server, run).unwrap(),
    )
}

fn load(hosts: &Hosts) -> Outcome {
    let object = format!("/usr/lib/{ARCH}-linux-gnu/bpf/{PROGRAM}.o");
    loader(hosts, &["load", "--mode", "native", "eth0", &object])
}

/// Sends 20 packets. Returns how many arrive.
fn arrive(hosts: &Hosts) -> usize {
    let (from, receiver) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
    for _ in 0..20 {
        from.send(&hosts.frame(CLIENT).bytes());
    }
    receiver.receive(Duration::from_millis(300)).len()
}

/// Attaches with these arguments too.
fn attach(hosts: &Hosts, more: &[&str]) -> Outcome {
    hosts.limiter(&[&ATTACH, more].concat())
}

#[test]
fn program_of_libxdp_stays_and_limiter_goes_behind_or_in_front() {
    need_kernel!();
    need_program!("xdp-loader");
    let _alone = alone();
    let hosts = Hosts::new();
    load(&hosts).expect(0);
    let before = on_server(&hosts);
    let loaded = loader(&hosts, &["status", "eth0"]).stdout;
    assert!(loaded.contains(PROGRAM), "{loaded}");
    // libxdp uses no dispatcher on kernels that do not let it replace a part of one.
    let dispatched = loaded.contains("xdp_dispatcher");
    println!("libxdp uses its dispatcher: {dispatched}");

    let words = [
        "--chain",
        "--hook tc",
        if dispatched {
            "xdp_dispatcher"
        } else {
            PROGRAM
        },
    ];
    attach(&hosts, &[]).expect_error(1, &words);
    assert_eq!(on_server(&hosts), before);

    if need::tcx() {
        attach(&hosts, &["--hook", "tc"]).expect(0);
        assert_eq!(number(&hosts.status()["seen"]["packets"]), 0);
        // A packet socket is in front of the hook.
        assert_eq!(arrive(&hosts), 20);
        let status = hosts.status();
        assert_eq!(status["passed"]["packets"], 6, "{status}");
        assert_eq!(status["dropped"]["packets"], 14, "{status}");
        assert_eq!(on_server(&hosts), before);
        hosts.run("detach eth0");
    }

    let chained = attach(&hosts, &["--chain"]);
    println!("--chain: {}{}", chained.stdout, chained.stderr);
    if chained.status == 0 {
        assert!(
            chained.stdout.contains("In front of program"),
            "{chained:?}"
        );
        assert_eq!(arrive(&hosts), 6);
        // The other tool says that it is not in place, and removes nothing.
        assert_ne!(loader(&hosts, &["unload", "eth0", "--all"]).status, 0);
        assert_eq!(arrive(&hosts), 0);
        hosts.run("detach eth0");
    } else {
        chained.expect_error(1, &["libxdp attached it", "--hook tc"]);
    }
    assert_eq!(on_server(&hosts), before);
    assert_eq!(loader(&hosts, &["status", "eth0"]).stdout, loaded);
    assert_eq!(arrive(&hosts), 20);
    loader(&hosts, &["unload", "eth0", "--all"]).expect(0);
    assert_eq!(on_server(&hosts), None);
}

#[test]
fn libxdp_does_not_replace_limiter() {
    need_kernel!();
    need_program!("xdp-loader");
    let _alone = alone();
    let hosts = Hosts::new();
    attach(&hosts, &[]).expect(0);
    let before = on_server(&hosts);
    let refused = load(&hosts);
    assert_ne!(refused.status, 0, "{refused:?}");
    assert!(
        refused.stderr.contains("busy") || refused.stdout.contains("busy"),
        "{refused:?}"
    );
    assert_ne!(loader(&hosts, &["unload", "eth0", "--all"]).status, 0);
    assert_eq!(on_server(&hosts), before);
    assert_eq!(arrive(&hosts), 6);
    hosts.run("detach eth0");

    if need::tcx() {
        attach(&hosts, &["--hook", "tc"]).expect(0);
        load(&hosts).expect(0);
        arrive(&hosts);
        assert_eq!(hosts.status()["dropped"]["packets"], 14);
        loader(&hosts, &["unload", "eth0", "--all"]).expect(0);
        arrive(&hosts);
        assert_eq!(hosts.status()["dropped"]["packets"], 34);
    }
}
