//! Hosts of a fleet get exactly the access that the store grants.

use std::{process::Command, time::Duration};

use limiter_fleet::store::{Fault, Options};
use limiter_tests::{
    command::binary,
    redis::{Setup, certificates},
};

use super::{Client, Server, expect_fault, members::held, options, refused, store, try_connect};

#[test]
fn password_comes_from_url_or_file_and_a_wrong_one_is_not_printed() {
    let (server, _store) = store!();
    let mut from_file = options(&server.url().replace("://", "://edge@"));
    from_file.password = Some(b"geheim\n".to_vec());
    let from_socket = options(&server.socket_url());
    for (number, options) in (1..).zip([from_file, from_socket]) {
        let mut store = try_connect(&options).unwrap();
        assert_eq!(store.totals(number, &[(1, 1)]), [number]);
    }
    for url in [
        server.url(),
        server.url_as("edge", "falsch"),
        server.url_as("stranger", "falsch"),
        server.url().replace("://", "://edge@"),
    ] {
        let error = expect_fault!(Fault::Denied(..), refused(&options(&url)));
        let text = format!("{error} {error:?}");
        assert!(!text.contains("falsch"), "{text}");
    }
}

/// It can call the functions for agents. It can neither read nor write a table, nor set the time.
#[test]
fn role_of_agents_has_exactly_the_rights_of_a_member() {
    let (server, mut store) = store!();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    store.beat(1, &[held("all", 1)], Duration::from_secs(60));
    assert!(store.lists(&["deny"]).lists[0].is_ok());
    let as_agent = |statement: &str| {
        let output = server.try_sql(&format!("SET ROLE edge; {statement}"));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains("permission denied"),
            "{statement}: {text}"
        );
    };
    for table in [
        "records",
        "rounds",
        "members",
        "limits",
        "entries",
        "revisions",
    ] {
        as_agent(&format!("SELECT * FROM limiter.{table}"));
        as_agent(&format!("DELETE FROM limiter.{table}"));
    }
    as_agent(
        "SELECT limiter.exchange_at(1, 'edge', 1, 0, 1, '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
    );
    as_agent("CREATE TABLE limiter.mine (x int)");
    as_agent("CREATE TABLE public.mine (x int)");
    // A temporary table of the same name deceives no function.
    let own = "SET ROLE edge; CREATE TEMP TABLE records (x int); CREATE TEMP TABLE members (x int);
        SELECT total FROM limiter.exchange('edge', 9, 0, 1, '{http}', '{1e9}', '{1000000000}', '{140000}', '{10.0.0.1}', '{1}', '{1}')";
    assert_eq!(server.sql(own), "2");
    server.sql("REVOKE limiter_agent_edge FROM edge");
    let error = expect_fault!(Fault::Forbidden(_), refused(&options(&server.agent_url())));
    assert!(error.to_string().contains("docs/fleet.md"), "{error}");
}

/// The owner of a database needs no right to make roles if the role is there. The role of agents has no right in the
/// database of another fleet, whatever the rules of connections are.
#[test]
fn fleets_that_share_a_server_are_kept_apart() {
    let (server, mut store) = store!();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    server.sql(
        "CREATE ROLE plain LOGIN; CREATE ROLE limiter_agent_core NOLOGIN; CREATE ROLE limiter_agent NOLOGIN;
         CREATE ROLE core LOGIN PASSWORD 'geheim' IN ROLE limiter_agent_core;
         CREATE ROLE old LOGIN PASSWORD 'geheim' IN ROLE limiter_agent",
    );
    server.sql("CREATE DATABASE core OWNER plain");
    let schema = server.folder().join("schema.sql");
    std::fs::write(&schema, limiter_fleet::store::SCHEMA).unwrap();
    for _ in 0..2 {
        let mut renew = server.psql("core");
        let done = renew
            .args(["-U", "plain", "-1f"])
            .arg(&schema)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let url = |user: &str| format!("postgres://{user}:geheim@127.0.0.1:{}/core", server.port);
    let mut core = try_connect(&options(&url("core"))).unwrap();
    assert_eq!(core.totals(1, &[(1, 1)]), [1]);
    for user in ["edge", "old"] {
        expect_fault!(Fault::Forbidden(_), refused(&options(&url(user))));
    }
    let error = refused(&options(&server.url_as("core", "geheim")));
    expect_fault!(Fault::Forbidden(_), error);
}

#[test]
fn no_function_of_the_schema_is_compiled() {
    let (server, _store) = store!();
    let with_jit =
        "SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'limiter'::regnamespace
        AND NOT 'jit=off' = ANY (coalesce(proconfig, '{}'))";
    assert_eq!(server.sql(with_jit), "");
}

/// It fails with another authority or another name, and against a server without TLS.
#[test]
fn tls_works_only_with_the_right_certificates() {
    if !Server::is_there("access::tls") || !limiter_tests::need::program("access::tls", "openssl") {
        return;
    }
    let folder = certificates("127.0.0.1");
    let read = |name: &str| Some(std::fs::read(folder.path().join(name)).unwrap());
    let server = Server::start_as(Setup {
        tls: Some(folder.path().to_owned()),
        ..Setup::default()
    });
    let changed = |url: &str, ca| Options { ca, ..options(url) };
    let url = server.agent_url();
    let mut store = try_connect(&changed(&url, read("ca.pem"))).unwrap();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND usename = 'edge'";
    assert_eq!(server.sql(encrypted), "1");
    let named = url.replace("127.0.0.1", "localhost");
    for (url, ca) in [
        (&url, read("other.pem")),
        (&named, read("ca.pem")),
        (&url, None),
    ] {
        let error = expect_fault!(Fault::Unreachable(_), refused(&changed(url, ca)));
        assert!(error.to_string().contains("certificate"), "{error}");
    }
    // The server demands a certificate of its clients, whose authority it knows.
    let rules =
        "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n";
    std::fs::write(server.folder().join("data/pg_hba.conf"), rules).unwrap();
    let ca = std::fs::read_to_string(folder.path().join("ca.pem")).unwrap();
    std::fs::write(server.folder().join("ca.pem"), ca).unwrap();
    let ca = server.folder().join("ca.pem");
    server.sql(&format!(
        "ALTER SYSTEM SET ssl_ca_file = '{}'",
        ca.display()
    ));
    server.sql("SELECT pg_reload_conf()");
    limiter_tests::eventually("a certificate is demanded", || {
        let error = refused(&changed(&url, read("ca.pem"))).to_string();
        error.contains("connection requires a valid client certificate") && error.contains("--cert")
    });
    let named = Options {
        cert: read("host.pem"),
        key: read("host.key"),
        ..changed(
            &format!("{url}&sslcert=/host.pem&sslkey=/host.key"),
            read("ca.pem"),
        )
    };
    assert_eq!(try_connect(&named).unwrap().totals(2, &[(1, 1)]), [2]);
    let plain = Server::start();
    Client::of(&plain);
    let asks = format!("{}?sslmode=verify-full", plain.agent_url());
    let error = expect_fault!(
        Fault::Unreachable(_),
        refused(&changed(&asks, read("ca.pem")))
    );
    assert!(
        error.to_string().contains("does not support TLS"),
        "{error}"
    );
}

/// The server's words are in the message, with what to do.
#[test]
fn messages_say_what_the_server_said() {
    let (server, mut store) = store!();
    let says = |url: &str, words: [&str; 2]| {
        let error = refused(&options(url)).to_string();
        assert!(words.iter().all(|words| error.contains(words)), "{error}");
    };
    let url = server.agent_url();
    says(
        &server.url_as("stranger", "x"),
        ["28P01 password authentication failed", "VALID UNTIL"],
    );
    server.sql("ALTER ROLE edge VALID UNTIL '2020-01-01'");
    says(
        &url,
        [
            "28P01 password authentication failed for user \"edge\"",
            "has a password that has not expired (VALID UNTIL)",
        ],
    );
    server.sql("ALTER ROLE edge VALID UNTIL 'infinity' CONNECTION LIMIT 1");
    says(
        &url,
        ["53300 too many connections for role", "max_connections"],
    );
    server.sql("ALTER ROLE edge CONNECTION LIMIT -1");
    server.sql("ALTER ROLE edge SET default_transaction_read_only = on");
    says(
        &url,
        [
            "transaction_read_only is on",
            "default_transaction_read_only off",
        ],
    );
    // A transaction that only reads, on a connection that is there.
    server.sql("ALTER ROLE edge RESET default_transaction_read_only");
    server
        .sql("ALTER DATABASE edge SET default_transaction_read_only = on; SELECT pg_reload_conf()");
    assert_eq!(
        store.totals(1, &[(1, 1)]),
        [1],
        "connections keep their setting"
    );
    let hba = server.folder().join("data/pg_hba.conf");
    let only = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(hba, only).unwrap();
    server.sql("SELECT pg_reload_conf()");
    limiter_tests::eventually("the rules are read", || {
        refused(&options(&url))
            .to_string()
            .contains("no pg_hba.conf entry")
    });
    says(&url, ["no encryption", "sslmode=verify-full"]);
}

/// The commands of docs/fleet.md make an empty server a store, and admit hosts with a password.
#[test]
fn documented_commands_set_up_a_store() {
    const PAGE: &str = include_str!("../../../docs/fleet.md");
    if !Server::is_there("documented_commands_set_up_a_store") {
        return;
    }
    let mut server = Server::start_with(Setup::default(), "");
    let (_, section) = PAGE.split_once("### PostgreSQL").unwrap();
    let steps = section.split("```").nth(1).unwrap();
    let commands: Vec<_> = steps
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with("systemctl"))
        .map(|line| {
            let line = line.replace("STORE_ADDRESS", "127.0.0.2");
            // This server has no certificate.
            let line = line.replace("hostssl", "host");
            line.replace("HOSTS_NETWORK", "127.0.0.0/8")
        })
        .collect();
    assert!(commands.len() > 5, "{steps}");
    // The second time, the schema is there already.
    let again = commands.iter().filter(|line| line.starts_with("limiter"));
    let script = commands.iter().chain(again).cloned().collect::<Vec<_>>();
    let folder = binary().parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut sh = Command::new("sh");
    sh.args(["-ec", &script.join("\n")]).env("PATH", path);
    server.connects(&mut sh);
    let output = sh.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    server.stop();
    server.go_on();
    let url = |user| format!("postgres://{user}@127.0.0.2:{}/edge", server.port);
    let mut store = try_connect(&options(&url("edge:PASSWORD"))).unwrap();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    expect_fault!(Fault::Denied(..), refused(&options(&url("edge:other"))));
    // Others may not even connect.
    server.sql("CREATE ROLE other LOGIN PASSWORD 'PASSWORD'");
    let other = "SELECT has_database_privilege('other', 'edge', 'CONNECT')";
    assert_eq!(server.sql(other), "f");
}
