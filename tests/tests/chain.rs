//! `attach --chain` puts limiter in front of another XDP program, and `detach` puts that program back.

use std::{fs, path::PathBuf, process::Command, sync::Mutex, time::Duration};

use limiter_kernel::sys::{interface, interface::XdpMode, link::Link};
use limiter_tests::{
    af_xdp::Xsk,
    command::{ip, limiter},
    eventually,
    foreign::{DROPPED_PORT, FRAGS, Foreign, Kind, PLAIN, attach, bpftool, on_server},
    hosts::{CLIENT, Hosts},
    need, need_kernel, program_fact,
    raw::Raw,
    steps::kill_at_each_step,
    testbed::Namespace,
    trials::wait_for_the_end,
    watcher::Watcher,
};

/// Returns from a test without a kernel to test on, or without `bpftool`, which attaches the other program.
macro_rules! need_all {
    () => {
        need_kernel!();
        if !need::tool(concat!("chain, line ", line!()), "bpftool") {
            return;
        }
    };
}

/// Held by tests that run `detach --all`, or leave pins that it would report.
static ALL: Mutex<()> = Mutex::new(());

/// Attaches limiter in a chain. It passes six packets and no more.
const CHAIN: [&str; 7] = ["attach", "eth0", "--rate", "1/h", "--burst", "6", "--chain"];

/// Hosts with `foreign` on the server.
fn hosts_with(foreign: &Foreign, mode: &str) -> Hosts {
    let hosts = Hosts::new();
    foreign.attach(&hosts, mode);
    hosts
}

/// Sends `count` packets to these ports in turn. Returns how many arrive.
fn arrive(hosts: &Hosts, ports: &[u16], count: usize) -> usize {
    let (from, receiver) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
    let mut frame = hosts.frame(CLIENT).bytes();
    for port in ports.iter().cycle().take(count) {
        // The destination port, after Ethernet, IPv4 without options, and the source port.
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        from.send(&frame);
    }
    receiver.receive(Duration::from_millis(200)).len()
}

/// The pin of the other program.
fn foreign_pin(hosts: &Hosts) -> Option<PathBuf> {
    let entries = fs::read_dir(hosts.pins()).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .find(|path| path.display().to_string().contains("/foreign_"))
}

/// Panics unless the state is as before limiter was attached.
#[track_caller]
fn expect_back(hosts: &Hosts, foreign: &Foreign, mode: &'static str) {
    assert_eq!(on_server(hosts), Some((mode, foreign.id)));
    assert!(!hosts.pins().exists(), "pins are left");
    let before = foreign.seen();
    assert_eq!(arrive(hosts, &[9, DROPPED_PORT], 20), 10, "its verdicts");
    assert_eq!(foreign.seen(), before + 20, "it sees all");
}

/// Removes limiter's link, as if a process was killed midway. The other program is not restored.
fn remove_link(hosts: &Hosts) {
    fs::remove_file(hosts.pins().join("link")).unwrap();
    eventually("the program is detached", || on_server(hosts).is_none());
}

#[test]
fn packets_that_pass_reach_the_chained_program() {
    need_all!();
    for (kind, how, mode) in [
        (PLAIN, "xdpdrv", "native"),
        (FRAGS, "xdpdrv", "native"),
        (PLAIN, "xdpgeneric", "generic"),
        (FRAGS, "xdpgeneric", "generic"),
    ] {
        let foreign = Foreign::load(kind);
        let hosts = hosts_with(&foreign, how);
        let attach = hosts.limiter(&CHAIN);
        attach.expect(0);
        let text = format!("In front of program {} (other_xdp)", foreign.id);
        assert!(attach.stdout.contains(&text), "{attach:#?}");

        assert_eq!(arrive(&hosts, &[9, DROPPED_PORT], 20), 3, "{kind:?} {mode}");
        assert_eq!(foreign.seen(), 6, "packets that it sees");
        let status = hosts.status();
        assert_eq!(status["passed"]["packets"], 6, "by limiter's count");
        assert_eq!(status["dropped"]["packets"], 14);
        assert_eq!(status["mode"], mode);
        assert_eq!(status["chained"], true);
        assert_eq!(status["frags"], kind.frags);
        let next = serde_json::json!(
            {"program_id": foreign.id, "name": "other_xdp", "mode": mode});
        assert_eq!(status["next_program"], next);
        assert!(hosts.limiter("status eth0").stdout.contains(&text));

        // The program that logs hands packets on, too, and so does the one after it.
        hosts.run("set eth0 --burst 10");
        let mut log = Watcher::log(&hosts, &["--level", "trace"]);
        assert_eq!(arrive(&hosts, &[9, DROPPED_PORT], 2), 1, "{kind:?} {mode}");
        arrive(&hosts, &[9, DROPPED_PORT], 20);
        assert_eq!(log.event()["event"], "limit");
        log.end();
        hosts.run("set eth0 --burst 12");
        arrive(&hosts, &[9], 20);
        assert_eq!(foreign.seen(), 12, "packets that it sees");

        let detach = hosts.limiter("detach eth0");
        detach.expect(0);
        assert!(detach.stdout.contains("runs there again"), "{detach:#?}");
        expect_back(&hosts, &foreign, mode);
    }
}

/// Mode tc sees no packet of an AF_XDP socket, so it is not recommended. In front of the socket's program, limits apply.
#[test]
fn packets_of_af_xdp_sockets_are_limited_in_a_chain_and_only_there() {
    need_all!();
    for (how, mode) in [("xdpdrv", "native"), ("xdpgeneric", "generic")] {
        let hosts = Hosts::new();
        let sockets = Xsk::open(&hosts.server, PLAIN);
        let id = program_fact(&sockets.program, "prog_id:").unwrap();
        attach(&hosts, how, id);
        let wire = Raw::open(&hosts.client);
        let send = || (0..20).for_each(|_| wire.send(&hosts.frame(CLIENT).bytes()));
        let reach = |count| {
            eventually("the socket has the packets", || {
                sockets.packets().len() == count
            });
        };
        send();
        reach(20);
        assert_eq!(sockets.packets()[0], hosts.frame(CLIENT).bytes());

        let words = [
            "AF_XDP sockets, past all limits",
            "limiter attach eth0 --chain",
        ];
        refused(&hosts, &CHAIN[..6], &words);
        for text in [
            hosts.limiter(&CHAIN[..6]).stderr,
            hosts.limiter("doctor eth0").stdout,
        ] {
            assert!(
                text.contains("--chain") && !text.contains("--hook tc"),
                "{text}"
            );
        }
        let mut reached = 20;
        if need::tcx() {
            hosts.run("attach eth0 --hook tc --rate 1/h --burst 6");
            send();
            reached += 20;
            reach(reached);
            assert_eq!(hosts.status()["seen"]["packets"], 0, "{mode}");
            hosts.run("detach eth0");
        }
        hosts.limiter(&CHAIN).expect(0);
        send();
        reach(reached + 6);
        let status = hosts.status();
        assert_eq!(status["mode"], mode);
        assert_eq!(status["passed"]["packets"], 6, "{mode}");
        assert_eq!(status["dropped"]["packets"], 14, "{mode}");
        hosts.run("detach eth0");
        assert_eq!(on_server(&hosts), Some((mode, id)));
    }
}

#[test]
fn chained_program_stays_in_place_after_every_change() {
    need_all!();
    for kind in [PLAIN, FRAGS] {
        let foreign = Foreign::load(kind);
        let hosts = hosts_with(&foreign, "xdpdrv");
        hosts.limiter(&CHAIN).expect(0);
        let mut seen = 0;
        // Packets that reach the other program, and those that pass it too.
        for (change, reach, pass) in [
            ("set eth0 --burst 4", 4, 2),
            // A program with lists calls the other program in another way.
            ("deny add eth0 203.0.113.0/24", 4, 2),
            ("allow add eth0 192.0.2.2", 20, 10),
            ("allow remove eth0 192.0.2.2", 4, 2),
            ("set eth0 --shadow on", 20, 10),
        ] {
            hosts.run(change);
            hosts.run("reset eth0 --all");
            assert_eq!(arrive(&hosts, &[9, DROPPED_PORT], 20), pass, "{change}");
            seen += reach;
            assert_eq!(foreign.seen(), seen, "{change}");
        }
        assert_eq!(hosts.status()["chained"], true);
        hosts.run("detach eth0");
        expect_back(&hosts, &foreign, "native");
    }
}

/// `detach` or the next `attach` then restores the program.
#[test]
fn chained_program_gets_all_packets_after_a_trial() {
    need_all!();
    for (kind, how, mode) in [
        (FRAGS, "xdpdrv", "native"),
        (PLAIN, "xdpgeneric", "generic"),
    ] {
        let foreign = Foreign::load(kind);
        let hosts = hosts_with(&foreign, how);
        let on_trial = [&CHAIN[..], &["--try", "8s"]].concat();
        hosts.limiter(&on_trial).expect(0);
        // Six packets pass; the other program drops every second one.
        assert_eq!(arrive(&hosts, &[9, DROPPED_PORT], 20), 3);
        assert_eq!(foreign.seen(), 6);
        wait_for_the_end(&hosts);
        assert_eq!(arrive(&hosts, &[9, DROPPED_PORT], 20), 10);
        assert_eq!(foreign.seen(), 26);
        hosts.limiter(&CHAIN).expect(0);
        assert_eq!(arrive(&hosts, &[9], 20), 6);
        // The change is on trial, and its fallback is chained too.
        hosts.run("set eth0 --burst 9 --try 8s");
        assert_eq!(arrive(&hosts, &[9], 20), 3);
        wait_for_the_end(&hosts);
        let seen = foreign.seen();
        hosts.run("reset eth0 --all");
        assert_eq!(arrive(&hosts, &[9, DROPPED_PORT], 20), 3);
        assert_eq!(foreign.seen(), seen + 6);
        hosts.run("detach eth0");
        expect_back(&hosts, &foreign, mode);
    }
}

/// Panics unless `status` and other commands report that the program is not yet restored, and how to restore it.
fn expect_waiting(hosts: &Hosts) {
    let words = ["other_xdp", "`limiter detach eth0` puts it back"];
    let all = hosts.limiter("status");
    all.expect(1);
    for word in words {
        assert!(all.stderr.contains(word), "{all:#?}");
    }
    hosts.limiter("status eth0").expect_error(1, &words);
    let doctor = hosts.limiter("doctor eth0");
    doctor.expect(1);
    assert!(doctor.stderr.contains(words[1]), "{doctor:#?}");
}

#[test]
fn foreign_program_is_restored_after_a_killed_command() {
    need_all!();
    let foreign = Foreign::load(PLAIN);
    for (how, mode) in [("xdpdrv", "native"), ("xdpgeneric", "generic")] {
        let hosts = hosts_with(&foreign, how);
        hosts.limiter(&CHAIN).expect(0);
        remove_link(&hosts);
        // A command in another namespace cannot restore the program, so it keeps the pin.
        let alone = ALL.lock().unwrap();
        Hosts::new().limiter("detach --all").expect(0);
        drop(alone);
        expect_waiting(&hosts);
        // Without --chain, `attach` refuses because of the program.
        let words = ["'other_xdp'", mode, "--chain"];
        hosts.limiter(&CHAIN[..6]).expect_error(1, &words);
        expect_back(&hosts, &foreign, mode);

        hosts.limiter(&CHAIN).expect(0);
        remove_link(&hosts);
        hosts.limiter(&CHAIN).expect(0);
        assert_eq!(arrive(&hosts, &[9, DROPPED_PORT], 20), 3);

        // The operator has restored the program by hand.
        remove_link(&hosts);
        foreign.attach(&hosts, how);
        hosts.run("detach eth0");
        expect_back(&hosts, &foreign, mode);

        // The link was detached by force.
        hosts.limiter(&CHAIN).expect(0);
        let pin = hosts.pins().join("link").display().to_string();
        assert!(bpftool(&hosts, &["link", "detach", "pinned", &pin]));
        hosts.run("detach eth0");
        expect_back(&hosts, &foreign, mode);
    }
}

#[test]
fn foreign_program_is_not_restored_over_another_program() {
    need_all!();
    let (foreign, other) = (Foreign::load(PLAIN), Foreign::load(FRAGS));
    let (how, mode) = ("xdpgeneric", "generic");
    let hosts = hosts_with(&foreign, "xdpdrv");
    hosts.limiter(&CHAIN).expect(0);
    remove_link(&hosts);
    other.attach(&hosts, how);
    let pin = foreign_pin(&hosts).unwrap();
    let words = [
        "could not be put back",
        "taken its place",
        "`limiter detach eth0` again",
        pin.to_str().unwrap(),
    ];
    for command in [&["detach", "eth0"][..], &CHAIN, &CHAIN[..6]] {
        hosts.limiter(command).expect_error(1, &words);
        assert_eq!(on_server(&hosts), Some((mode, other.id)), "unchanged");
        assert!(pin.exists());
    }
    assert!(bpftool(&hosts, &["net", "detach", how, "dev", "eth0"]));
    hosts.run("detach eth0");
    expect_back(&hosts, &foreign, "native");

    hosts.limiter(&CHAIN).expect(0);
    remove_link(&hosts);
    other.attach(&hosts, how);
    // The operator gives up the program, as the message advises.
    fs::remove_file(foreign_pin(&hosts).unwrap()).unwrap();
    hosts.run("detach eth0");
    assert_eq!(on_server(&hosts), Some((mode, other.id)));
    assert!(!hosts.pins().exists());
}

/// Runs `limiter` on the server. It must fail with these words, and change nothing.
#[track_caller]
fn refused(hosts: &Hosts, arguments: &[&str], words: &[&str]) {
    let before = on_server(hosts);
    hosts.limiter(arguments).expect_error(1, words);
    assert_eq!(on_server(hosts), before);
    assert!(!hosts.pins().exists(), "pins are left");
}

#[test]
fn chain_is_refused_without_a_suitable_program() {
    need_all!();
    let hosts = Hosts::new();
    let words = ["no XDP program", "leave --chain out"];
    refused(&hosts, &CHAIN, &words);

    let foreign = Foreign::load(PLAIN);
    foreign.attach(&hosts, "xdpdrv");
    let words = [
        "'other_xdp'",
        "`limiter attach eth0 --chain ...`",
        "ip link set eth0 xdp off",
    ];
    refused(&hosts, &CHAIN[..6], &words);
    let doctor = hosts.limiter("doctor eth0");
    doctor.expect(1);
    assert!(doctor.stderr.contains("--chain"), "{doctor:#?}");
    let generic = [&CHAIN[..], &["--mode", "generic"]].concat();
    refused(&hosts, &generic, &["native mode", "leave --mode out"]);
    let several = [&CHAIN[..], &["eth9"]].concat();
    let outcome = hosts.limiter(&several);
    outcome.expect(1);
    assert!(outcome.stderr.contains("eth9"), "{outcome:#?}");
    expect_back(&hosts, &foreign, "native");
    assert!(bpftool(&hosts, &["net", "detach", "xdpdrv", "dev", "eth0"]));

    // A program without an attach type, as old loaders load it.
    let old = Foreign::load(Kind {
        attach_type: 0,
        ..PLAIN
    });
    old.attach(&hosts, "xdpdrv");
    refused(&hosts, &CHAIN, &["'other_xdp'", "expected_attach_type"]);
    expect_back(&hosts, &old, "native");
}

#[test]
fn chain_is_refused_for_a_program_held_by_a_link() {
    need_all!();
    use std::os::fd::AsFd;

    let (hosts, foreign) = (Hosts::new(), Foreign::load(PLAIN));
    let create = || Link::create(foreign.fd.as_fd(), hosts.server.index, XdpMode::Native);
    let link = hosts.server.namespace.run(create).unwrap().unwrap();
    let words = [
        "'other_xdp'",
        "attached through netlink",
        "bpftool link detach id",
    ];
    refused(&hosts, &CHAIN, &words);
    assert_ne!(link.info().unwrap().interface, 0, "still attached");
}

#[test]
fn foreign_program_is_kept_if_the_interface_is_in_another_namespace() {
    need_all!();
    use std::os::fd::AsRawFd;

    let foreign = Foreign::load(PLAIN);
    let hosts = hosts_with(&foreign, "xdpdrv");
    hosts.limiter(&CHAIN).expect(0);
    let target = hosts.client.namespace.file().as_raw_fd();
    let target = format!("/proc/{}/fd/{target}", std::process::id());
    let server = &hosts.server.namespace;
    ip(server, "link set eth0 name away");
    ip(server, &format!("link set away netns {target}"));
    let pin = foreign_pin(&hosts).unwrap();
    let words = ["another network namespace", pin.to_str().unwrap()];
    hosts.limiter("detach eth0").expect_error(1, &words);
    let away = || {
        let client = &hosts.client.namespace;
        let away = client.block_on(|| interface::by_name("away"));
        away.unwrap().unwrap().xdp.map(|xdp| xdp.program_id)
    };
    assert_eq!(away(), None, "limiter is detached");
    // The command that the message advises.
    let put_back = hosts.client.namespace.run(|| {
        let mut bpftool = Command::new("bpftool");
        bpftool.args(["net", "attach", "xdpdrv", "pinned", words[1], "dev", "away"]);
        bpftool.status().unwrap().success()
    });
    assert!(put_back.unwrap());
    assert_eq!(away(), Some(foreign.id));
    hosts.run("detach eth0");
    assert_eq!(away(), Some(foreign.id), "unchanged");
    assert!(!hosts.pins().exists());
}

/// The namespace of the attachment is gone, or has lost its interface. The index of that interface is one of another
/// interface here, which must not get the chained program.
#[test]
fn foreign_program_of_a_namespace_without_its_interface_is_kept_and_named() {
    need_all!();
    let _alone = ALL.lock().unwrap();
    let foreign = Foreign::load(PLAIN);
    let (hosts, other) = (hosts_with(&foreign, "xdpdrv"), Hosts::new());
    assert_eq!(hosts.server.index, other.server.index);
    hosts.limiter(&CHAIN).expect(0);
    let pin = foreign_pin(&hosts).unwrap();
    ip(&hosts.client.namespace, "link delete eth0");
    let words = ["another network namespace", pin.to_str().unwrap()];
    for _ in 0..2 {
        other.limiter("detach --all").expect_error(1, &words);
        assert_eq!(on_server(&other), None);
        assert!(pin.exists());
    }
    // The command that the message advises.
    fs::remove_file(&pin).unwrap();
    other.limiter("detach --all").expect(0);
    assert!(!hosts.pins().exists());
}

/// A network card comes back when its namespace is deleted.
#[test]
fn detach_all_finds_a_card_that_came_from_another_namespace() {
    need_all!();
    use std::os::fd::AsRawFd;

    let _alone = ALL.lock().unwrap();
    let foreign = Foreign::load(PLAIN);
    let hosts = hosts_with(&foreign, "xdpdrv");
    hosts.limiter(&CHAIN).expect(0);
    let home = Namespace::new().unwrap();
    let target = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        home.file().as_raw_fd()
    );
    ip(
        &hosts.server.namespace,
        &format!("link set eth0 netns {target}"),
    );
    let program = || {
        let eth0 = home.block_on(|| interface::by_name("eth0"));
        eth0.unwrap().unwrap().xdp.map(|xdp| xdp.program_id)
    };
    assert!(program().is_some_and(|id| id != foreign.id));
    home.run(|| limiter("detach --all").expect(0)).unwrap();
    assert_eq!(program(), Some(foreign.id), "it runs again");
    assert!(!hosts.pins().exists());
}

/// Panics unless `status` and `doctor` report the true state after a kill. Returns whether neither program runs.
fn expect_truth(hosts: &Hosts, foreign: &Foreign, situation: &str) -> bool {
    let own = Some(("native", foreign.id));
    // The kernel releases the link of a dead process with a delay, so the pins decide.
    if hosts.pins().join("link").exists() {
        assert_ne!(on_server(hosts), own, "{situation}");
        hosts.run("status eth0");
        return false;
    }
    let settled = || [None, own].contains(&on_server(hosts));
    eventually("no program, or the other program, is attached", settled);
    if on_server(hosts) == own {
        let status = hosts.limiter("status eth0");
        status.expect_error(1, &["not attached"]);
        return false;
    }
    expect_waiting(hosts);
    true
}

#[test]
fn killed_attach_does_not_lose_the_foreign_program() {
    need_all!();
    let foreign = Foreign::load(FRAGS);
    let hosts = hosts_with(&foreign, "xdpdrv");
    kill(&hosts, &foreign, &CHAIN, || {});
}

#[test]
fn killed_detach_does_not_lose_the_foreign_program() {
    need_all!();
    let foreign = Foreign::load(PLAIN);
    let hosts = hosts_with(&foreign, "xdpdrv");
    let attach = || hosts.limiter(&CHAIN).expect(0);
    kill(&hosts, &foreign, &["detach", "eth0"], attach);
}

/// Kills `command` at each step. After every second step, `attach` follows. Otherwise `detach` follows at once.
fn kill(hosts: &Hosts, foreign: &Foreign, command: &[&str], before: impl FnMut()) {
    let mut gone = 0;
    kill_at_each_step(hosts, command, before, |step, situation| {
        gone += u32::from(expect_truth(hosts, foreign, situation));
        if step % 2 == 0 {
            hosts.limiter(&CHAIN).expect(0);
        }
        hosts.run("detach eth0");
        expect_back(hosts, foreign, "native");
    });
    assert!(gone >= 2, "never killed between the two programs: {gone}");
}
