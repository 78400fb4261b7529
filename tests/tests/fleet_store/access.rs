//! Hosts of a fleet get exactly the access that the store grants, and an error names the missing right.

use std::{process::Command, time::Duration};

use limiter_fleet::store::{Edit, Error, Fault, Options, Target};
use limiter_tests::{
    exporter::loopback_up,
    hosts::{Hosts, SERVER},
    need_kernel, need_redis,
    redis::{Redis, Setup, certificates},
};

use super::{
    expect_fault,
    members::held,
    options, refused, round,
    stored_lists::{add, prefixes},
    try_connect,
};

const PAGE: &str = include_str!("../../../docs/fleet.md");

fn secret() -> Redis<'static> {
    Redis::start_as(Setup {
        password: Some("geheim".into()),
        ..Setup::default()
    })
}

/// A store with the user of the fleet `edge`. The user has the rights of docs/fleet.md.
fn with_user() -> Redis<'static> {
    let redis = secret();
    let page = PAGE.replace(['\'', '\\'], "");
    let (_, rights) = page.split_once("ACL SETUSER edge on >PASSWORD ").unwrap();
    let mut command = vec!["ACL", "SETUSER", "edge", "on", ">edgepass"];
    command.extend(rights.lines().next().unwrap().split(' '));
    assert_eq!(redis.cli(&command), "OK");
    redis
}

#[test]
fn password_comes_from_url_or_file_and_a_wrong_one_is_not_printed() {
    need_redis!();
    let redis = secret();
    let mut from_file = options(&redis.url());
    from_file.password = Some(b"geheim\n".to_vec());
    let mut from_socket = from_file.clone();
    from_socket.url = redis.socket_url();
    let in_url = options(&redis.url_as("default", "geheim"));
    for (number, options) in (1..).zip([in_url, from_file, from_socket]) {
        let mut store = try_connect(&options).unwrap();
        assert_eq!(store.totals(number, &[(1, 1)]), [number]);
    }
    for url in [
        redis.url(),
        redis.url_as("", "falsch"),
        redis.url_as("stranger", "falsch"),
        redis.socket_url(),
    ] {
        let error = expect_fault!(Fault::Denied(..), refused(&options(&url)));
        let text = format!("{error} {error:?}");
        assert!(!text.contains("falsch"), "{text}");
    }
}

#[test]
fn user_of_one_fleet_has_exactly_the_rights_of_a_member() {
    need_redis!();
    let redis = with_user();
    let connect = || try_connect(&options(&redis.url_as("edge", "edgepass"))).unwrap();
    let mut store = connect();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    assert_eq!(store.totals(2, &[(1, 1)]), [2]);
    let minute = Duration::from_secs(60);
    let remove = Edit::Remove(prefixes(&["192.0.2.0/24"]));
    for edit in [add(&["192.0.2.0/24"], Some(minute)), remove] {
        assert_eq!(store.try_edit(&edit).unwrap(), 1, "{edit:?}");
    }
    assert!(store.lists(&["deny"]).lists[0].is_ok());
    // The second pass must remove existing objects and make them again.
    let limits = [held("all", 1)];
    for _ in 0..2 {
        assert_eq!(store.beat(1, &limits, minute).held, limits);
        redis.cli(&["SET", "limiter:{edge}:members", "junk"]);
        redis.cli(&["SET", "limiter:{edge}:limits", "junk"]);
    }
    for other in ["edge2", "edg", "other"] {
        let round = round(1, &[(1, 1)]);
        let error = store.try_exchange(other, 1, &round).unwrap_err();
        expect_fault!(Fault::Forbidden(_), error);
        let beat = store.store.heartbeat(other, 1, "one", &[], &[], minute);
        let error = store.runtime.block_on(beat).unwrap_err();
        expect_fault!(Fault::Forbidden(_), error);
    }
    // Without these rights, the script must fail.
    redis.cli(&["ACL", "SETUSER", "edge", "-setrange", "-set"]);
    expect_fault!(Fault::Forbidden(_), connect().fails(9, &[(1, 1)]));
}

/// Without the right, the message names it.
#[test]
fn another_database_needs_the_select_right() {
    need_redis!();
    let redis = with_user();
    let url = format!("{}/1", redis.url_as("edge", "edgepass"));
    let error = expect_fault!(Fault::Forbidden(..), refused(&options(&url)));
    assert!(error.to_string().contains("'select'"), "{error}");
    redis.cli(&["ACL", "SETUSER", "edge", "+select"]);
    let mut store = try_connect(&options(&url)).unwrap();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
}

/// The commands of docs/fleet.md admit a fleet's hosts to a newly installed store, and still do after a restart.
#[test]
fn documented_commands_set_up_a_store() {
    need_kernel!();
    need_redis!();
    let hosts = Hosts::new();
    loopback_up(&hosts.server);
    let mut redis = Redis::start_as(Setup {
        host: Some(&hosts.server.namespace),
        // The configuration file of Debian's package.
        file: Some("bind 127.0.0.1\nprotected-mode yes\n".into()),
        ..Setup::default()
    });
    let (address, port) = (SERVER.to_string(), redis.port);
    let connect_as = |user: &str| -> Result<Vec<u64>, Error> {
        let options = options(&format!("redis://{user}@{address}:{port}"));
        let asked = hosts.client.namespace.run(|| {
            let mut store = try_connect(&options)?;
            Ok(store.totals(1, &[(1, 1)]))
        });
        asked.unwrap()
    };
    let say = |script: &str| {
        let sh = || Command::new("sh").args(["-ec", script]).output();
        let output = hosts.server.namespace.run(sh).unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let steps = PAGE.split("# 3.").next().unwrap();
    let commands = steps
        .lines()
        .filter(|line| line.starts_with("redis-cli ") || line.starts_with("export "));
    let commands: Vec<_> = commands
        .map(|line| line.replace("STORE_ADDRESS", &address))
        .collect();
    // After the first command, the store listens, but still refuses other hosts.
    say(&commands[0]);
    let error = expect_fault!(Fault::Denied(..), connect_as("edge:PASSWORD").unwrap_err());
    assert!(error.is_of_the_connection(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("in protected mode") && text.contains("requirepass"),
        "{text}"
    );
    let text = say(&commands.join("\n"));
    let answers: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(answers, ["OK"; 4]);
    assert_eq!(connect_as("edge:PASSWORD").unwrap(), [1]);
    redis.stop();
    redis.go_on();
    assert_eq!(connect_as("edge:PASSWORD").unwrap(), [1]);
    expect_fault!(Fault::Denied(..), connect_as("edge:other").unwrap_err());
}

/// It fails with another authority or another name.
#[test]
fn tls_works_only_with_the_right_certificates() {
    need_redis!();
    if !limiter_tests::need::program("access::tls", "openssl") {
        return;
    }
    let folder = certificates("127.0.0.1");
    let read = |name: &str| Some(std::fs::read(folder.path().join(name)).unwrap());
    let redis = Redis::start_as(Setup {
        tls: Some(folder.path().to_owned()),
        ..Setup::default()
    });
    let changed = |url: &str, ca| Options { ca, ..options(url) };
    let url = redis.url();
    let mut store = try_connect(&changed(&url, read("ca.pem"))).unwrap();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    // The certificate is for the address only. The system's authorities do not include the test's.
    let named = url.replace("127.0.0.1", "localhost");
    for (url, ca) in [
        (&url, read("other.pem")),
        (&named, read("ca.pem")),
        (&url, None),
    ] {
        let error = expect_fault!(Fault::Unreachable(_), refused(&changed(url, ca)));
        assert!(error.to_string().contains("certificate"), "{error}");
    }
    // A file without a certificate is refused before any attempt.
    let error = Target::read(&changed(&url, read("extension")))
        .err()
        .unwrap();
    assert!(matches!(error, Error::Certificates(_)), "{error}");
    // If only one side speaks TLS, both may wait for data, until the timeout.
    let plain = Redis::start();
    for (url, ca) in [
        (url.replace("rediss", "redis"), None),
        (plain.url().replace("redis:", "rediss:"), read("ca.pem")),
    ] {
        let error = refused(&Options {
            timeout: Duration::from_millis(250),
            ..changed(&url, ca)
        });
        assert!(error.is_of_the_connection(), "{error}");
        let text = error.to_string();
        assert!(
            url.starts_with("redis:") || text.contains("speaks TLS"),
            "{text}"
        );
    }
}

/// Redis demands one by default if it has TLS. A certificate that cannot be used is refused before any connection.
#[test]
fn certificate_of_the_host_is_shown_where_it_is_demanded() {
    need_redis!();
    if !limiter_tests::need::program("access::certificate", "openssl") {
        return;
    }
    let folder = certificates("127.0.0.1");
    let read = |name: &str| Some(std::fs::read(folder.path().join(name)).unwrap());
    let redis = Redis::start_as(Setup {
        tls: Some(folder.path().to_owned()),
        demands_certificates: true,
        ..Setup::default()
    });
    let showing = |cert: Option<&str>, key: Option<&str>| Options {
        ca: read("ca.pem"),
        cert: cert.and_then(read),
        key: key.and_then(read),
        ..options(&redis.url())
    };
    let mut store = try_connect(&showing(Some("host.pem"), Some("host.key"))).unwrap();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    for (cert, key) in [(None, None), (Some("other.pem"), Some("other.key"))] {
        let error = expect_fault!(Fault::Certificate(_), refused(&showing(cert, key)));
        assert!(error.to_string().contains("--cert"), "{error}");
    }
    for (cert, key, words) in [
        (Some("host.pem"), None, "a certificate needs its key"),
        (None, Some("host.key"), "a certificate needs its key"),
        (
            Some("host.pem"),
            Some("other.key"),
            "cannot be used with its key",
        ),
        (
            Some("old.pem"),
            Some("host.key"),
            "must be of X.509 version 3",
        ),
        (Some("host.key"), Some("host.key"), "has none"),
        (Some("host.pem"), Some("host.pem"), "no private key"),
    ] {
        let error = Target::read(&showing(cert, key)).err().unwrap();
        assert!(matches!(error, Error::Certificates(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}
