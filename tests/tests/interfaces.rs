//! Commands handle interfaces that vanish, are renamed, move to another namespace, or have unusual names.

use std::{os::fd::AsRawFd, path::Path, process::Command};

use limiter_tests::{
    command::{Arguments, Outcome, binary, ip, limiter, prepared},
    files::Folder,
    hosts::{Hosts, on},
    need, need_kernel,
    testbed::Host,
};

#[test]
fn vanished_interface_is_reported() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5");
    let pins = hosts.pins();
    ip(&hosts.client.namespace, "link delete eth0");

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
    let status = hosts.limiter("status");
    status.expect(1);
    assert!(status.stderr.contains("limiter detach eth0"), "{status:#?}");

    // A stale pin blocks a new interface with the name.
    let server = &hosts.server.namespace;
    ip(server, "link add eth0 type veth peer name far");
    hosts.limiter("attach eth0 --rate 5").expect_error(
        1,
        &["does not run on 'eth0' any more", "limiter detach eth0"],
    );
    assert!(pins.exists());
    hosts.run("detach eth0");
    assert!(!pins.exists());
    hosts.run("attach eth0 --rate 5");
}

#[test]
fn renamed_interface_is_found_by_its_new_name() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5");
    ip(&hosts.server.namespace, "link set eth0 name lan.7");
    hosts
        .limiter("status eth0")
        .expect_error(1, &["'lan.7' now"]);
    assert_eq!(
        hosts.json("status lan.7 --json")["interfaces"][0]["name"],
        "lan.7"
    );
    hosts.run("set lan.7 --rate 6");
    hosts.run("detach lan.7");
}

#[test]
fn commands_report_an_interface_moved_to_another_namespace() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5");
    // iproute2 takes a descriptor of the client's namespace.
    let target = hosts.client.namespace.file().as_raw_fd();
    let target = format!("/proc/{}/fd/{target}", std::process::id());
    let server = &hosts.server.namespace;
    ip(server, "link set eth0 name away");
    ip(server, &format!("link set away netns {target}"));
    for arguments in [&["status", "eth0"][..], &["set", "eth0", "--rate", "6"]] {
        hosts
            .limiter(arguments)
            .expect_error(1, &["another network namespace", "limiter detach eth0"]);
    }
    assert!(
        hosts
            .limiter("status")
            .stderr
            .contains("another network namespace")
    );
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists());
    let away = hosts
        .client
        .namespace
        .block_on(|| limiter_kernel::sys::interface::by_name("away"));
    assert_eq!(away.unwrap().unwrap().xdp, None, "the program is detached");
}

/// Runs `limiter` on this host.
fn run_on(host: &Host, arguments: &(impl Arguments + ?Sized)) -> Outcome {
    let words = arguments.words();
    on(host, || limiter(&words))
}

/// The limits go with the interface, and commands in its new namespace show, change and remove them.
#[test]
fn attachment_is_found_in_the_namespace_that_its_interface_moved_to() {
    need_kernel!();
    for mode in ["native", "generic", "tc"] {
        if mode == "tc" && !need::tcx() {
            continue;
        }
        let (hosts, files) = (Hosts::new(), Folder::new());
        let file = files.write(
            "limiter.toml",
            format!("mode = \"{mode}\"\n[[limit]]\nname = \"default\"\nrate = \"7/s\"\n"),
        );
        hosts.run(&format!("attach eth0 --rate 5 --mode {mode}"));
        let target = hosts.client.namespace.file().as_raw_fd();
        let target = format!("/proc/{}/fd/{target}", std::process::id());
        let server = &hosts.server.namespace;
        ip(server, "link set eth0 name away");
        ip(server, &format!("link set away netns {target}"));
        let client = &hosts.client;
        let rate = || {
            let status = run_on(client, "status away --json");
            status.expect(0);
            let json: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
            json["interfaces"][0]["limits"][0]["rate"].clone()
        };
        assert_eq!(rate(), "5/s", "{mode}");
        run_on(client, "set away --rate 6").expect(0);
        assert_eq!(rate(), "6/s", "{mode}");
        let words = ["attached to 'away' already"];
        run_on(client, "attach away --rate 5").expect_error(1, &words);
        let reload = ["attach", "away", "--or-reload", "--config", &file];
        run_on(client, &reload).expect(0);
        assert_eq!(rate(), "7/s", "{mode}");
        // The name at attach stands for another interface here.
        run_on(client, "status eth0").expect_error(1, &["not attached to 'eth0'"]);
        run_on(client, "attach eth0 --rate 5 --mode generic").expect(0);
        run_on(client, "detach eth0").expect(0);
        assert!(hosts.pins().exists());
        let detach = ["detach away", "detach --all"][usize::from(mode == "native")];
        run_on(client, detach).expect(0);
        assert!(!hosts.pins().exists(), "{mode}");
        run_on(client, "status away").expect_error(1, &["not attached"]);
    }
}

/// A container has a bpffs of its own, so the pins of an interface that was moved into it are not there.
#[test]
fn program_that_is_pinned_in_another_bpffs_is_known_as_limiters() {
    need_kernel!();
    let hosts = Hosts::new();
    let contained = |command: &str| {
        const SCRIPT: &str = "mount -t bpf bpf /sys/fs/bpf && exec \"$@\"";
        on(&hosts.server, || {
            let mut unshare = Command::new("unshare");
            unshare.args([
                "--mount",
                "--pid",
                "--fork",
                "--mount-proc",
                "sh",
                "-c",
                SCRIPT,
            ]);
            unshare.arg("sh").arg(binary()).args(command.split(' '));
            Outcome::of(command.to_owned(), unshare.output().unwrap())
        })
    };
    contained("status eth0").expect_error(1, &["limiter is not attached to 'eth0': `"]);
    let modes = ["--mode native", "--mode generic", "--hook tc"];
    for mode in &modes[..if need::tcx() { 3 } else { 2 }] {
        hosts.run(&format!("attach eth0 --rate 5 {mode}"));
        for command in [
            "status eth0",
            "set eth0 --rate 6",
            "detach eth0",
            "detach --all",
        ] {
            let words = ["'eth0'", "its program (id", "another bpffs"];
            contained(command).expect_error(1, &words);
        }
        let listed = contained("status");
        assert!(
            listed.stderr.contains("another bpffs"),
            "{mode}: {listed:#?}"
        );
        assert_eq!(hosts.status()["limits"][0]["rate"], "5/s", "{mode}");
        if *mode != "--hook tc" {
            let refused = contained("attach eth0 --rate 5 --mode xdp");
            refused.expect_error(1, &["it is limiter's, pinned in another bpffs"]);
        }
        hosts.run("detach eth0");
    }
}

/// `ip link property add … altname`. Outputs and pins have the interface's name.
#[test]
fn alternative_name_stands_for_the_interface_in_every_command() {
    const LONG: &str = "a-name-that-is-longer-than-fifteen-bytes";
    need_kernel!();
    let (hosts, files) = (Hosts::new(), Folder::new());
    let server = &hosts.server.namespace;
    for name in ["wan", LONG] {
        ip(
            server,
            &format!("link property add dev eth0 altname {name}"),
        );
    }
    let config = "interfaces = [\"wan\"]\nmode = \"generic\"\n[lists]\nown = []\n[[limit]]\nname = \"all\"\nrate = \"5/s\"\n";
    let file = files.write("limiter.toml", config);
    let done = |line: &str| {
        let outcome = hosts.limiter(line);
        outcome.expect(0);
        let said = outcome.stdout + &outcome.stderr;
        assert!(
            !said.contains("wan") && !said.contains(LONG),
            "{line}: {said}"
        );
        said
    };
    let attached = hosts.limiter(&["attach", "--config", &file]);
    attached.expect(0);
    assert!(attached.stdout.starts_with("eth0: "), "{attached:?}");
    assert!(hosts.pins().exists());
    for line in [
        "doctor wan",
        "set wan --rate 6",
        "deny add wan 192.0.2.7",
        "deny list wan",
        "tier add wan own 192.0.2.9",
        "ban wan 192.0.2.8",
        "bans wan",
        "unban wan 192.0.2.8",
        "check wan 192.0.2.7",
        "reset wan --all",
        "top wan --once --interval 100ms",
        "keep wan",
        "config show wan",
    ] {
        done(line);
        let long = done(&line.replace("wan", LONG));
        assert!(long.contains("eth0") || line.contains(" list "), "{long}");
    }
    let reload = hosts.limiter(&["reload", LONG, "--config", &file]);
    reload.expect(0);
    let both = hosts.json(&format!("status wan,eth0,{LONG} --json"));
    let shown = both["interfaces"].as_array().unwrap();
    assert_eq!(shown.len(), 1, "{both:#}");
    assert_eq!(shown[0]["name"], "eth0");
    hosts
        .limiter("attach wan --rate 5")
        .expect_error(1, &["'eth0' already"]);
    if need::tcx() {
        let attached = done(&format!("attach {LONG}:out --rate 5"));
        assert!(attached.starts_with("eth0:out: "), "{attached}");
        done("detach wan:out");
    }
    assert_eq!(done(&format!("detach {LONG}")), "eth0: detached\n");
    let unknown = ["no interface 'another-name-that-is-too-long-for-a-name'"];
    hosts
        .limiter("attach another-name-that-is-too-long-for-a-name --rate 5")
        .expect_error(1, &unknown);
}

/// Another interface gets the old name of a renamed interface.
#[test]
fn reused_interface_name_blocks_attach_until_detach() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5");
    let server = &hosts.server.namespace;
    ip(server, "link set eth0 name wan9");
    ip(server, "link add eth0 type veth peer name far");
    hosts
        .limiter("attach eth0 --rate 5")
        .expect_error(1, &["'wan9'", "limiter detach wan9"]);
    hosts.run("detach wan9");
    hosts.run("attach wan9 --rate 5");
    hosts.run("attach eth0 --rate 5");
    hosts.run("detach eth0 wan9");
}

/// This also holds for `all`. A failing interface is named and does not stop the others. The status is 1.
#[test]
fn every_verb_accepts_several_interfaces() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let limits = "[lists]\nown = []\n[[limit]]\nname = \"all\"\nrate = \"5/s\"\nmatch = { source = \"own\" }\n";
    let file = folder.write("limiter.toml", format!("mode = \"generic\"\n{limits}"));
    hosts
        .limiter(&["attach", "eth0,lo", "--config", &file])
        .expect(0);
    let done = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let outcome = hosts.limiter(&words);
        outcome.expect(0);
        outcome.stdout
    };
    for (line, lines) in [
        ("deny add eth0,lo 192.0.2.7", 2),
        ("deny add all 192.0.2.8", 2),
        ("allow replace all 192.0.2.9", 2),
        ("tier add all own 192.0.2.9", 2),
        ("deny list all", 4),
        ("deny list eth0,lo --json", 2),
        ("tier list all own", 2),
        ("set eth0 lo --rate 6", 2),
        ("set all --shadow on", 2),
        ("reset eth0,lo 192.0.2.9", 2),
        ("reset all --all", 2),
        ("keep all", 2),
        ("keep eth0 lo", 2),
        ("check all 192.0.2.7 --json", 2),
    ] {
        let text = done(line);
        assert!(text.lines().count() >= lines, "{line}: {text}");
        assert!(
            line.contains(" list ") || text.contains("eth0") && text.contains("lo"),
            "{text}"
        );
    }
    for line in ["status eth0 lo", "status lo,eth0", "status all"] {
        let shown = done(line);
        for name in ["eth0", "lo"] {
            assert!(shown.contains(&format!("{name}: generic mode")), "{shown}");
        }
    }
    for line in ["config show all", "config show eth0 lo"] {
        let shown = done(line);
        assert!(shown.contains("interfaces = [\"eth0\"]"), "{shown}");
        assert!(shown.contains("interfaces = [\"lo\"]"), "{shown}");
    }
    assert_eq!(done("deny list lo"), "192.0.2.7\n192.0.2.8\n");

    for line in [
        "set eth0,eth9,lo --rate 7",
        "status eth0 eth9 lo",
        "check eth0,eth9,lo 192.0.2.7",
        "reset eth0,eth9,lo --all",
        "deny add eth0,eth9,lo 192.0.2.10",
        "deny list eth0,eth9,lo",
        "tier add eth0,eth9,lo own 192.0.2.10",
        "reload eth0 eth9 lo",
        "config show eth0,eth9,lo",
        "keep eth0,eth9,lo",
        "detach eth0,eth9,lo",
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let outcome = hosts.limiter(&words);
        outcome.expect(1);
        assert!(outcome.stdout.lines().count() >= 2, "both: {outcome:#?}");
        assert!(outcome.stderr.contains("eth9"), "{outcome:#?}");
    }
    hosts
        .limiter("set all --rate 5")
        .expect_error(1, &["not attached to any interface"]);
    hosts.limiter("keep all,eth0").expect_error(2, &["'all'"]);
}

/// A write never guesses which of the two is meant.
#[test]
fn file_with_a_name_of_an_interface_is_asked_for_by_its_folder() {
    need_kernel!();
    let (hosts, files) = (Hosts::new(), Folder::new());
    let name = "link property add dev eth0 altname wan.toml";
    ip(&hosts.server.namespace, name);
    hosts.run("attach eth0 --rate 5/s");
    let folder = files.path("");
    let ran = |words: &[&str]| {
        let mut command = prepared(words);
        command.current_dir(&folder);
        let output = on(&hosts.server, || command.output()).unwrap();
        Outcome::of(words.join(" "), output)
    };
    for verb in ["save", "diff"] {
        let words =
            format!("write ./wan.toml for the file, as in `limiter config {verb} eth0 ./wan.toml`");
        ran(&["config", verb, "wan.toml"]).expect_error(2, &["is a name of an interface", &words]);
    }
    assert!(!Path::new(&files.path("wan.toml")).exists());
    let saved = ran(&["config", "save", "./wan.toml"]);
    saved.expect(0);
    assert!(saved.stdout.contains("wan.toml, a new file"), "{saved:?}");
    ran(&["config", "save", "wan.toml", "wan.toml"]).expect(0);
    ran(&["config", "diff", "eth0", "wan.toml"]).expect(0);
}
