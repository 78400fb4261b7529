//! What can stand between the process that holds the link of a trial and those who ask it for that.

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::MetadataExt,
            net::{SocketAddr, UnixStream},
        },
    },
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use limiter_common::layout;
use limiter_tests::{
    command::{Outcome, binary, limiter, prepared},
    eventually,
    hosts::Hosts,
    need_kernel,
    trials::{LIMIT, attach, expect_nothing_left, has_program, holder, holders, passed, try_until},
};
use nix::sys::signal::{Signal, kill};

#[test]
fn a_stopped_holder_is_named_and_nothing_is_claimed() {
    need_kernel!();
    let hosts = Hosts::new();
    attach(&hosts, "1h");
    let process = holder(&hosts);
    kill(process, Signal::SIGSTOP).unwrap();
    let advice = format!("kill -9 {process}");
    for arguments in [&["detach", "eth0"][..], &["keep", "eth0"]] {
        hosts
            .limiter(arguments)
            .expect_error(1, &["does not answer", &advice]);
    }
    assert_eq!(passed(&hosts), 3, "it is there still");
    kill(process, Signal::SIGCONT).unwrap();
    hosts.limiter(&["detach", "eth0"]).expect(0);
    expect_nothing_left(&hosts);
}

/// Its socket is in its own network namespace: from elsewhere it must not look like leftovers.
#[test]
fn other_network_namespaces_leave_it_alone() {
    need_kernel!();
    let hosts = Hosts::new();
    attach(&hosts, "1h");
    let elsewhere = hosts
        .client
        .namespace
        .run(|| limiter(&["detach", "--all"]))
        .unwrap();
    elsewhere.expect(0);
    assert!(try_until(&hosts).is_some());
    assert_eq!(passed(&hosts), 3);
    hosts.limiter(&["keep", "eth0"]).expect(0);
}

/// Root in a container with the host's network may reach the socket, and may not open the pins.
#[test]
fn who_does_not_show_the_pins_gets_no_link() {
    need_kernel!();
    use std::io::{Read, Write};

    let hosts = Hosts::new();
    attach(&hosts, "1h");
    let pins = hosts.pins();
    let name = format!(
        "limiter/v{}/{}/{}",
        layout::VERSION,
        pins.file_name().unwrap().display(),
        pins.metadata().unwrap().ino()
    );
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let connect = || {
        let stream = hosts
            .server
            .namespace
            .run(|| UnixStream::connect_addr(&address));
        stream.unwrap().unwrap()
    };
    let mut stream = connect();
    stream.write_all(&[0]).unwrap();
    let mut answer = Vec::new();
    // A connection that is closed with something unread is reset.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
    // Nor does it keep the holder from its work to say nothing.
    let _silent: Vec<_> = (0..3).map(|_| connect()).collect();
    assert!(try_until(&hosts).is_some());
    hosts.limiter(&["detach", "eth0"]).expect(0);
    expect_nothing_left(&hosts);
}

#[test]
fn the_interface_vanishes() {
    need_kernel!();
    let hosts = Hosts::new();
    attach(&hosts, "1h");
    let pins = hosts.pins();
    let deleted = hosts
        .server
        .namespace
        .run(|| Command::new("ip").args(["link", "delete", "eth0"]).status());
    assert!(deleted.unwrap().unwrap().success());
    eventually("nothing is left", || {
        !pins.exists() && holders(&pins).is_empty()
    });
    hosts
        .limiter(&["keep", "eth0"])
        .expect_error(1, &["no interface 'eth0'"]);
}

/// Root without its other capabilities: what a hardened service has.
#[test]
fn with_three_capabilities_alone() {
    need_kernel!();
    let hosts = Hosts::new();
    let limiter = |arguments: &[&str]| {
        let capabilities = "-all,+bpf,+net_admin,+perfmon";
        let output = hosts.server.namespace.run(|| {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set", capabilities, "--inh-caps", capabilities]);
            command.arg(binary()).args(arguments).output()
        });
        Outcome::of(arguments.join(" "), output.unwrap().unwrap()).expect(0);
    };
    limiter(&["attach", "eth0", "--rate", "5", "--try", "3s"]);
    limiter(&["set", "eth0", "--rate", "6"]);
    eventually("it is undone", || {
        !has_program(&hosts) && !hosts.pins().exists()
    });
    limiter(&["attach", "eth0", "--rate", "5", "--try", "1h"]);
    limiter(&["keep", "eth0"]);
    assert_eq!(try_until(&hosts), None);
}

#[test]
fn a_killed_attach_is_on_trial_or_not_attached() {
    need_kernel!();
    let hosts = Hosts::new();
    // Built before it is timed.
    binary();
    // Without waiting for the lock, which other tests have too.
    let lives = (0..3).map(|_| {
        let start = Instant::now();
        attach(&hosts, "1h");
        let life = start.elapsed();
        hosts.limiter(&["detach", "eth0"]).expect(0);
        life
    });
    let life = lives.min().unwrap();
    for round in 0..24 {
        let delay = life * 5 / 4 * round / 24;
        let child = hosts.server.namespace.run(|| {
            let mut command = prepared(&LIMIT);
            command.args(["--try", "1h"]).stdout(Stdio::null()).spawn()
        });
        let mut child = child.unwrap().unwrap();
        thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();
        let pins = hosts.pins();
        eventually("attached with a holder, or neither", || {
            let attached = hosts.limiter(&["status", "eth0"]).status == 0;
            attached == has_program(&hosts) && attached == (holders(&pins).len() == 1)
        });
        let on_trial = has_program(&hosts);
        assert_eq!(passed(&hosts), if on_trial { 3 } else { 10 }, "{delay:?}");
        // What it left may be cleared by another test's `detach --all` meanwhile.
        let detach = hosts.limiter(&["detach", "eth0"]);
        assert!(detach.status == 0 || !on_trial, "{detach:#?}");
        expect_nothing_left(&hosts);
    }
}
