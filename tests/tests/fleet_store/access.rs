//! Hosts of a fleet get exactly the access that the store grants, and an error names the missing right.

use std::process::Command;

use limiter_fleet::store::{Edit, Error, Fault, Target};
use limiter_tests::{
    exporter::loopback_up,
    hosts::{Hosts, SERVER},
    need_kernel, need_redis,
    redis::{Redis, Setup, certificates},
};

use super::{
    Asked, expect_fault,
    lists::{BY, add, prefixes},
    members::held,
    options, refused, round, totals, try_connect,
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
    let mut store = try_connect(&options(&redis.url_as("default", "geheim"))).unwrap();
    assert_eq!(totals(&store.exchange(1, &round(1, &[(1, 1)]))), [1]);
    let mut from_file = options(&redis.url());
    from_file.password = Some(b"geheim\n".to_vec());
    assert!(try_connect(&from_file).is_ok());
    for url in [
        redis.url(),
        redis.url_as("", "falsch"),
        redis.url_as("stranger", "falsch"),
        redis.socket_url(),
    ] {
        let error = refused(&options(&url));
        assert!(
            matches!(error, Error::At(_, Fault::Denied)),
            "{url}: {error}"
        );
        let text = format!("{error} {error:?}");
        assert!(!text.contains("falsch"), "{text}");
    }
}

#[test]
fn store_is_reached_over_a_unix_socket() {
    need_redis!();
    let redis = Redis::start();
    let mut store = try_connect(&options(&redis.socket_url())).unwrap();
    assert_eq!(totals(&store.exchange(1, &round(1, &[(1, 1)]))), [1]);
}

#[test]
fn user_of_one_fleet_has_exactly_the_rights_of_a_member() {
    need_redis!();
    let redis = with_user();
    let mut store = try_connect(&options(&redis.url_as("edge", "edgepass"))).unwrap();
    assert_eq!(totals(&store.exchange(1, &round(1, &[(1, 1)]))), [1]);
    assert_eq!(totals(&store.exchange(1, &round(2, &[(1, 1)]))), [2]);
    let Asked { runtime, store } = &mut store;
    let minute = std::time::Duration::from_secs(60);
    runtime.block_on(async {
        let limits = [held("all", 1)];
        let remove = Edit::Remove(prefixes(&["192.0.2.0/24"]));
        for (edit, changed) in [(add(&["192.0.2.0/24"], Some(minute)), 1), (remove, 1)] {
            let edited = store.edit("edge", "deny", BY, &edit).await.unwrap();
            assert_eq!(edited.prefixes, changed, "{edit:?}");
        }
        let read = store.lists("edge", &["deny".to_owned()]).await.unwrap();
        assert!(read.lists[0].is_ok());
        // The second pass must remove existing objects and make them again.
        for _ in 0..2 {
            let beat = store.heartbeat("edge", 1, "one", &limits, minute).await;
            assert_eq!(beat.unwrap().held, limits);
            redis.cli(&["SET", "limiter:{edge}:members", "junk"]);
            redis.cli(&["SET", "limiter:{edge}:limits", "junk"]);
        }
        for other in ["edge2", "edg", "other"] {
            let error = store.heartbeat(other, 1, "one", &[], minute).await;
            let error = error.unwrap_err();
            assert!(
                matches!(error, Error::At(_, Fault::Forbidden { .. })),
                "{other}: {error}"
            );
            let round = round(1, &[(1, 1)]);
            let error = store.exchange(other, 1, &round, super::ALONE).await;
            let error = error.unwrap_err();
            assert!(
                matches!(error, Error::At(_, Fault::Forbidden { .. })),
                "{other}: {error}"
            );
        }
    });
    // Without these rights, the script must fail.
    redis.cli(&["ACL", "SETUSER", "edge", "-setrange", "-set"]);
    let mut store = try_connect(&options(&redis.url_as("edge", "edgepass"))).unwrap();
    expect_fault!(
        Fault::Forbidden(..),
        store.try_exchange(1, &round(9, &[(1, 1)])).unwrap_err()
    );
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
    assert_eq!(totals(&store.exchange(1, &round(1, &[(1, 1)]))), [1]);
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
            Ok(totals(&store.exchange(1, &round(1, &[(1, 1)]))))
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
    let error = connect_as("edge:PASSWORD").unwrap_err();
    assert!(error.is_of_the_connection(), "{error}");
    let text = say(&commands.join("\n"));
    let answers: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(answers, ["OK"; 4]);
    assert_eq!(connect_as("edge:PASSWORD").unwrap(), [1]);
    redis.stop();
    redis.go_on();
    assert_eq!(connect_as("edge:PASSWORD").unwrap(), [1]);
    expect_fault!(Fault::Denied, connect_as("edge:other").unwrap_err());
}

/// It fails with another authority or another name.
#[test]
fn tls_works_only_with_the_right_certificates() {
    need_redis!();
    if !limiter_tests::need::program("access::tls", "openssl") {
        return;
    }
    let folder = certificates("127.0.0.1");
    let path = |name: &str| Some(std::fs::read(folder.path().join(name)).unwrap());
    let redis = Redis::start_as(Setup {
        tls: Some(folder.path().to_owned()),
        ..Setup::default()
    });
    let mut good = options(&redis.url());
    good.ca = path("ca.pem");
    let mut store = try_connect(&good).unwrap();
    assert_eq!(totals(&store.exchange(1, &round(1, &[(1, 1)]))), [1]);
    let is_tls = |error: &Error| matches!(error, Error::At(_, Fault::Tls { .. }));
    let mut bad = good.clone();
    bad.ca = path("other.pem");
    let error = refused(&bad);
    assert!(is_tls(&error), "{error}");
    // The certificate is for the address only.
    bad = good.clone();
    bad.url = redis.url().replace("127.0.0.1", "localhost");
    let error = refused(&bad);
    assert!(is_tls(&error), "{error}");
    // The system's authorities do not include the test's.
    bad = good.clone();
    bad.ca = None;
    let error = refused(&bad);
    assert!(is_tls(&error), "{error}");
    // A file without a certificate is refused before any attempt.
    bad = good.clone();
    bad.ca = path("extension");
    let error = Target::read(&bad).unwrap_err();
    assert!(matches!(error, Error::Certificates(_)), "{error}");
    // If only one side speaks TLS, both may wait for data, until the timeout.
    let moment = std::time::Duration::from_millis(250);
    let mut plainly = options(&redis.url().replace("rediss", "redis"));
    (plainly.connect_timeout, plainly.response_timeout) = (moment, moment);
    let error = refused(&plainly);
    assert!(error.is_of_the_connection(), "{error}");
    let plain = Redis::start();
    bad = good.clone();
    bad.url = plain.url().replace("redis:", "rediss:");
    (bad.connect_timeout, bad.response_timeout) = (moment, moment);
    let error = refused(&bad);
    assert!(error.is_of_the_connection(), "{error}");
    assert!(error.to_string().contains("speaks TLS"), "{error}");
}
