//! With too few file descriptors, each command says so, and leaves nothing behind. It raises the limit if it may.

use limiter_tests::{
    command::{Outcome, binary, ip},
    hosts::{Hosts, on},
    need_kernel,
};
use std::process::Command;

/// Runs `limiter` on the server with a soft and a hard limit of open files.
fn limited(hosts: &Hosts, limits: [u32; 2], line: &str) -> Outcome {
    let [soft, hard] = limits;
    // Programs that ran the tests may have left descriptors open, as `time -o` does.
    let closed = (3..10).map(|descriptor| format!(" {descriptor}>&-"));
    let closed: String = closed.collect();
    let script = format!("exec{closed}; ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(binary());
    command.args(line.split(' '));
    Outcome::of(
        format!("{limits:?}: {line}"),
        on(&hosts.server, || command.output()).unwrap(),
    )
}

fn expect_refused(outcome: &Outcome) {
    outcome.expect_error(1, &["ulimit -n"]);
    assert!(!outcome.stderr.contains("panicked"), "{outcome:#?}");
}

#[test]
fn commands_with_too_few_descriptors_say_so_and_change_nothing() {
    need_kernel!();
    let hosts = Hosts::new();
    for limit in 4..=30 {
        let attach = limited(&hosts, [limit; 2], "attach eth0 --rate 10/s");
        expect_refused(&attach);
        assert!(!hosts.pins().exists(), "{attach:#?}");
    }
    hosts.run("attach eth0 --rate 10/s");
    let before = hosts.status();
    for limit in 4..=30 {
        for line in [
            "detach eth0",
            "set eth0 --rate 20/s",
            "set all --rate 20/s --try 1m",
            "ban eth0 192.0.2.7",
            "unban eth0 192.0.2.7",
            "deny add eth0 192.0.2.7",
            "status",
            "status eth0 --json",
            "top eth0 --once",
            "check eth0 192.0.2.7",
            "bans eth0",
            "export --listen 127.0.0.1:0",
            "doctor eth0",
        ] {
            expect_refused(&limited(&hosts, [limit; 2], line));
        }
        // The interface, which may be left out, cannot be found.
        let lacking = limited(&hosts, [limit; 2], "set --rate 20/s");
        lacking.expect_error(2, &["<IFACE>"]);
        let long = "set a-name-that-is-longer-than-fifteen-bytes --rate 20/s";
        let unknown = limited(&hosts, [limit; 2], long);
        assert!(!unknown.stderr.contains("panicked"), "{unknown:#?}");
    }
    assert_eq!(hosts.status(), before);
}

#[test]
fn limit_of_descriptors_is_raised_as_far_as_allowed() {
    need_kernel!();
    let hosts = Hosts::new();
    limited(&hosts, [10, 1_024], "attach eth0 --rate 10/s").expect(0);
    limited(&hosts, [10, 1_024], "status eth0").expect(0);
}

/// Each attachment takes some twenty descriptors.
#[test]
fn many_attachments_are_read_and_changed_one_after_the_other() {
    need_kernel!();
    const ATTACHMENTS: u32 = 16;
    let hosts = Hosts::new();
    let names: Vec<_> = (0..ATTACHMENTS).map(|i| format!("veth{i}")).collect();
    for name in &names {
        let namespace = &hosts.server.namespace;
        ip(
            namespace,
            &format!("link add {name} type veth peer name p{name}"),
        );
        ip(namespace, &format!("link set {name} up"));
    }
    let limits = [256; 2];
    let attach = format!("attach {} --rate 10/s --max-sources 1000", names.join(","));
    limited(&hosts, limits, &attach).expect(0);
    for line in [
        "status",
        "set all --rate 20/s",
        "ban all 192.0.2.7",
        "detach all",
    ] {
        let outcome = limited(&hosts, limits, line);
        outcome.expect(0);
        let told = names
            .iter()
            .filter(|name| outcome.stdout.contains(&format!("{name}:")));
        assert_eq!(told.count(), names.len(), "{outcome:#?}");
    }
    assert_eq!(
        hosts.limiter("status").stdout,
        "limiter is not attached to any interface\n"
    );
}
