//! An attachment can be made, shown and removed, and leaves nothing behind.

use std::{
    fs,
    io::{self, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
};

use limiter_tests::{
    command::{Outcome, prepared},
    files::{Folder, at_driver},
    hosts::{CLIENT, Hosts, on},
    need_kernel, number,
    objects::{Object, expect_gone},
    traffic::Traffic,
};

#[test]
fn detach_leaves_no_program_map_link_or_pin() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5 --burst 10");
    let status = hosts.status();
    assert_eq!(status["mode"], "native");
    assert_eq!(status["limits"][0]["rate"], "5/s");
    let pins = hosts.pins();
    assert!(pins.join("link").exists());
    let pinned = Object::pinned_in(&pins);
    let id = u32::try_from(status["program_id"].as_u64().unwrap()).unwrap();
    assert!(pinned.contains(&Object::Program(id)), "{pinned:?}");
    let kinds = pinned.iter().map(|object| match object {
        Object::Map(_) => "map",
        Object::Program(_) => "program",
        Object::Link(_) => "link",
    });
    let count = |kind: &str| kinds.clone().filter(|other| *other == kind).count();
    assert_eq!(count("program"), 1);
    assert_eq!(count("link"), 1);
    assert!(count("map") >= 4, "{pinned:?}");
    assert!(pinned.iter().all(|object| object.exists()));

    hosts.run("detach eth0");
    assert!(!pins.exists());
    expect_gone(&pinned);
    hosts
        .limiter("detach eth0 --strict")
        .expect_error(1, &["not attached"]);
    hosts.run("attach eth0 --rate 5");
}

/// Without `--strict`, the command succeeds.
#[test]
fn command_that_requests_the_existing_state_is_unchanged() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let limits = "[lists]\nown = [\"192.0.2.8\"]\ndeny = [\"192.0.2.7\"]\n[[limit]]\nname = \"all\"\n\
                  rate = \"5/s\"\nmatch = { source = \"own\" }\n";
    const IN_FORCE: &str = "eth0: unchanged: already in force";
    let file = folder.write("limiter.toml", at_driver(limits));
    let attach = format!("attach eth0 --config {file}");
    hosts.run(&attach);
    let before = hosts.status();
    for (command, text) in [
        (
            attach.as_str(),
            "eth0: unchanged: already attached with this",
        ),
        (&format!("{attach} --or-reload"), "eth0: unchanged: "),
        ("reload eth0", "eth0: unchanged: "),
        ("keep eth0", "eth0: unchanged: not on trial"),
        ("set eth0 --rate 5", "eth0: unchanged: "),
        ("deny add eth0 192.0.2.7", IN_FORCE),
        ("deny replace eth0 192.0.2.7", IN_FORCE),
        ("allow remove eth0 192.0.2.9", IN_FORCE),
        ("tier remove eth0 own 192.0.2.9", IN_FORCE),
        (
            "reset eth0 192.0.2.8",
            "eth0: unchanged: 192.0.2.8 was not in the table",
        ),
        ("reset eth0 --all", "eth0: unchanged: no source"),
        ("detach lo", "lo: unchanged: limiter is not attached"),
    ] {
        let plain = hosts.run(command);
        assert!(plain.starts_with(text), "{plain}");
        let strict = hosts.limiter(&format!("{command} --strict"));
        strict.expect(1);
        assert_eq!(strict.stdout, "", "{strict:#?}");
        assert!(
            strict.stderr.starts_with(&format!("limiter: {text}")),
            "{strict:#?}"
        );
    }
    let after = hosts.status();
    assert_eq!(after["limits"], before["limits"]);

    hosts.run("detach --all");
    assert!(hosts.run("detach --all").starts_with("unchanged: "));
    hosts
        .limiter("--strict detach --all")
        .expect_error(1, &["unchanged"]);
}

#[test]
fn attach_of_several_interfaces_attaches_all_or_none() {
    need_kernel!();
    let hosts = Hosts::new();
    let names = || {
        let status = hosts.json("status --json");
        let interfaces = status["interfaces"].as_array().unwrap().iter();
        interfaces
            .map(|interface| interface["name"].clone())
            .collect::<Vec<_>>()
    };
    let attach = hosts.limiter("attach eth0 eth9 --rate 5");
    attach.expect(1);
    assert!(attach.stderr.contains("eth9"), "{attach:#?}");
    assert_eq!(names(), [""; 0]);
    hosts.run("attach eth0 lo --rate 5 --mode generic");
    assert_eq!(names(), ["eth0", "lo"]);
    hosts.run("detach --all");
    assert_eq!(names(), [""; 0]);
}

#[test]
fn attach_or_reload_of_several_interfaces_changes_all_or_none() {
    need_kernel!();
    let (hosts, files) = (Hosts::new(), Folder::new());
    let limit = "[[limit]]\nname = \"default\"\nrate = \"7/s\"\n";
    let file = files.write("new.toml", format!("mode = \"generic\"\n{limit}"));
    let attach = |names: &str| hosts.limiter(&["attach", names, "--or-reload", "--config", &file]);
    let rates = || {
        let status = hosts.json("status --json");
        let interfaces = status["interfaces"].as_array().unwrap().iter();
        interfaces
            .map(|interface| {
                format!("{} {}", interface["name"], interface["limits"][0]["rate"]).replace('"', "")
            })
            .collect::<Vec<_>>()
    };
    // The second interface is attached, and cannot have this configuration.
    hosts.run("attach lo --rate 5 --mode generic --max-sources 64");
    attach("eth0,lo").expect_error(1, &["lo: ", "max_sources is fixed at attach"]);
    assert_eq!(rates(), ["lo 5/s"]);
    // The first interface could have it, and the second one could not.
    hosts.run("attach eth0 --rate 5 --mode generic");
    attach("eth0,lo").expect_error(1, &["lo: ", "max_sources is fixed at attach"]);
    assert_eq!(rates(), ["eth0 5/s", "lo 5/s"]);
    // The second interface is not there.
    attach("eth0,eth9").expect_error(1, &["no interface 'eth9'"]);
    assert_eq!(rates(), ["eth0 5/s", "lo 5/s"]);
    hosts.run("detach lo");
    attach("lo,eth0").expect(0);
    assert_eq!(rates(), ["eth0 7/s", "lo 7/s"]);
    hosts.run("detach eth0 lo");
}

#[test]
fn reported_mode_is_the_mode_in_use() {
    need_kernel!();
    let hosts = Hosts::new();
    // lo does not support native XDP.
    hosts
        .limiter("attach lo --rate 5 --mode native")
        .expect_error(1, &["native", "--mode generic"]);
    let attach = hosts.limiter("attach lo --rate 5");
    attach.expect(0);
    assert!(
        attach.stdout.contains("NOT native") && attach.stdout.contains("Loopback"),
        "{attach:#?}"
    );
    assert!(!attach.stdout.contains("gro"), "no advice: {attach:#?}");
    let status = &hosts.json("status lo --json")["interfaces"][0];
    assert_eq!(status["loopback"], true);
    assert_eq!(status["mode"], "generic");
    assert!(
        status["fallback"]
            .as_str()
            .unwrap()
            .contains("does not support XDP"),
        "{status}"
    );
    assert!(hosts.limiter("status lo").stdout.contains("NOT native"));
    let attach = hosts.limiter("attach eth0 --rate 5 --mode generic");
    attach.expect(0);
    // Offload is off there: the advice would be void.
    const ADVICE: &str = "ethtool -K eth0 gro off";
    assert!(!attach.stdout.contains(ADVICE), "{attach:#?}");
    let switch_on = || {
        Command::new("ethtool")
            .args(["-K", "eth0", "gro", "on"])
            .status()
    };
    assert!(on(&hosts.server, switch_on).unwrap().success());
    let status = hosts.run("status eth0");
    assert!(status.contains(ADVICE), "{status}");
    assert_eq!(hosts.status()["mode"], "generic");
    assert_eq!(hosts.status()["fallback"], serde_json::Value::Null);
}

/// Standard output is on a full disk.
#[test]
fn change_that_cannot_be_printed_is_made_and_reported_as_such() {
    need_kernel!();
    let hosts = Hosts::new();
    let file = Folder::new();
    let file = file.write(
        "limits.toml",
        at_driver("[[limit]]\nname = \"all\"\nrate = \"9/s\"\n[lists]\npartners = []\n"),
    );
    let unprinted = |arguments: &str, text: &str| {
        let mut command = prepared(arguments);
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        command.stdout(full.unwrap()).stderr(Stdio::piped());
        let output = on(&hosts.server, || command.output()).unwrap();
        let outcome = Outcome::of(arguments.to_owned(), output);
        outcome.expect(1);
        let why = "standard output cannot be written (No space left on device";
        for words in [text, why, "in force", "`limiter status`"] {
            assert!(outcome.stderr.contains(words), "{words}: {outcome:#?}");
        }
    };
    let rate = || hosts.status()["limits"][0]["rate"].clone();
    unprinted("attach eth0 --rate 5", "5/s");
    assert_eq!(rate(), "5/s");
    unprinted("set eth0 --rate 7", "rate 5/s -> 7/s");
    assert_eq!(rate(), "7/s");
    unprinted(&format!("reload eth0 --config {file}"), "9/s");
    assert_eq!(rate(), "9/s");
    unprinted("deny add eth0 192.0.2.7", "deny: 1 added");
    unprinted("tier add eth0 partners 192.0.2.9", "partners: 1 added");
    unprinted("reset eth0 192.0.2.7", "192.0.2.7");
    unprinted("detach eth0", "eth0: detached");
    assert!(!hosts.pins().exists());
    // The command does all of its work: nothing stays on trial, and no interface is skipped.
    unprinted("attach eth0 --rate 5 --try 60s", "5/s");
    unprinted(&format!("attach eth0 --or-reload --config {file}"), "9/s");
    assert_eq!(hosts.status()["trial"], serde_json::Value::Null);
    unprinted("keep eth0", "not on trial");
}

/// The commands are the first ones of README.md.
#[test]
fn first_command_of_the_readme_drops_nothing() {
    need_kernel!();
    let [attach, off] = commands_of_the_readme();
    assert_eq!(attach[..2], ["attach", "eth0"]);
    let hosts = Hosts::new();
    hosts.limiter(&attach).expect(0);
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("192.0.2.2", 5_000), 5_000);
    hosts.limiter(&off).expect(0);
    assert!(traffic.passed("192.0.2.2", 5_000) < 5_000);
}

/// The words of the first `limiter attach` and `limiter set` in README.md.
fn commands_of_the_readme() -> [Vec<&'static str>; 2] {
    let readme = include_str!("../../README.md");
    ["attach", "set"].map(|verb| {
        let lines = readme
            .lines()
            .map(|line| line.split(" #").next().unwrap_or_default());
        let mut commands = lines.filter_map(|line| line.strip_prefix("sudo limiter "));
        let command = commands.find(|command| command.starts_with(verb)).unwrap();
        command.split_whitespace().collect()
    })
}

/// Downloads 20 MB to the host, over a connection that the host opens.
fn download(hosts: &Hosts) {
    const BYTES: usize = 20 << 20;
    let from = SocketAddr::new(CLIENT, 9_000);
    let listener = on(&hosts.client, || TcpListener::bind(from)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut connection, _) = listener.accept().unwrap();
            connection.write_all(&vec![0x5a; BYTES]).unwrap();
        });
        let mut connection = on(&hosts.server, || TcpStream::connect(from)).unwrap();
        let count = io::copy(&mut connection, &mut io::sink()).unwrap();
        assert_eq!(count, BYTES as u64);
    });
}

/// No packet of the transfer is refused, so that its speed stays. The same limit without `--exempt` would refuse some.
#[test]
fn commands_of_the_readme_leave_the_hosts_own_transfers_alone() {
    need_kernel!();
    let [attach, off] = commands_of_the_readme();
    let count = |hosts: &Hosts, verdict: &str| number(&hosts.status()[verdict]["packets"]);

    let hosts = Hosts::new();
    let attached = hosts.limiter(&attach);
    attached.expect(0);
    download(&hosts);
    assert!(count(&hosts, "seen") > 100, "{}", hosts.status());
    assert_eq!(count(&hosts, "would_drop"), 0, "{}", hosts.status());
    hosts.limiter(&off).expect(0);
    download(&hosts);
    assert_eq!(count(&hosts, "dropped"), 0, "{}", hosts.status());
    let bound = "a limit with match = { established = true } bounds them";
    assert!(attached.stdout.contains(bound), "{attached:#?}");

    let hosts = Hosts::new();
    let mut unguarded = attach.clone();
    let exempt = unguarded
        .iter()
        .position(|word| *word == "--exempt")
        .unwrap();
    unguarded.drain(exempt..exempt + 2);
    let attached = hosts.limiter(&unguarded);
    attached.expect(0);
    download(&hosts);
    assert!(count(&hosts, "would_drop") > 1_000, "{}", hosts.status());
    let words = "`--exempt established,control`";
    assert!(attached.stdout.contains(words), "{attached:#?}");
}
