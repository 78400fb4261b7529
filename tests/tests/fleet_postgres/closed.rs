//! A connection that the server has closed is of no use, whatever the server said last.

use std::{thread, time::Duration};

use limiter_fleet::store::Fault;
use limiter_tests::{
    pooler::{self, Pooler},
    proxy::{Moment, Proxy},
};

use super::{Client, Server, expect_fault, options, round, store, try_connect};

/// Codes of errors that end a connection: shut down, idle for too long, an error of a pooler, too many connections, not
/// allowed, an internal error.
const CODES: [&str; 6] = ["57P01", "57P05", "08P01", "53300", "28000", "XX000"];

/// The message of an error that ends a connection. Old poolers leave out the field V.
fn fatal(code: &str, has_severity: bool) -> Vec<u8> {
    let severity = if has_severity { "VFATAL\0" } else { "" };
    let fields = format!("SFATAL\0{severity}C{code}\0Mbye\0\0");
    let length = u32::try_from(fields.len() + 4).unwrap();
    [&b"E"[..], &length.to_be_bytes(), fields.as_bytes()].concat()
}

/// The agent drops the connection after the first error. Otherwise it would keep a closed one for ever.
#[test]
fn every_last_message_at_every_moment_ends_the_connection() {
    let (server, _store) = store!();
    let link = Proxy::to(server.port);
    let url = link.url(&server.agent_url(), server.port);
    let mut number = 0;
    let messages = CODES.map(|code| (code, fatal(code, true))).into_iter();
    let messages = messages.chain([("08P01", fatal("08P01", false)), ("", Vec::new())]);
    for (code, message) in messages {
        for moment in [Moment::Idle, Moment::InsteadOfAnswer, Moment::AfterAnswer] {
            let mut store = try_connect(&options(&url)).unwrap();
            link.end(moment, &message);
            let mut asked = || {
                number += 1;
                store.try_exchange("edge", 1, &round(number, &[(1, 1)]))
            };
            let error = match asked() {
                Ok(_) if moment == Moment::AfterAnswer => asked().unwrap_err(),
                answer => answer.unwrap_err(),
            };
            assert!(error.is_of_the_connection(), "{code} {moment:?}: {error}");
            // Together with an answer, the client may see the end of the connection alone.
            if moment != Moment::AfterAnswer {
                assert!(
                    error.to_string().contains(code),
                    "{code} {moment:?}: {error}"
                );
            }
        }
    }
}

#[test]
fn idle_session_that_the_server_ends_is_made_again() {
    let (server, _store) = store!();
    server.sql("ALTER ROLE edge SET idle_session_timeout = '200ms'");
    let mut store = Client::of(&server);
    thread::sleep(Duration::from_millis(600));
    let error = expect_fault!(Fault::Closed(_), store.fails(1, &[(1, 1)]));
    assert!(error.to_string().contains("57P05"), "{error}");
    server.sql("ALTER ROLE edge RESET idle_session_timeout");
    let mut store = Client::of(&server);
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'edge'");
    let error = expect_fault!(Fault::Closed(_), store.fails(2, &[(1, 1)]));
    assert!(error.to_string().contains("57P01"), "{error}");
}

/// The pooler's server is killed and comes back. Each error names a connection that cannot be used, or asks to wait for
/// one that can.
#[test]
fn pooler_whose_server_was_killed_is_used_again() {
    for program in pooler::programs() {
        let test = format!(
            "pooler_whose_server_was_killed_is_used_again with {}",
            program.name
        );
        if !Server::is_there(&test) || !limiter_tests::need::program(&test, program.name) {
            continue;
        }
        let mut server = Server::start();
        let pooler = Pooler::start(&program, &server);
        let options = options(&pooler.url(&server.agent_url(), server.port));
        let mut store = None;
        limiter_tests::eventually("the pooler lets agents in", || {
            store = try_connect(&options).ok();
            store.is_some()
        });
        let mut number = 0;
        let mut totals = |store: &mut Client| {
            number += 1;
            store.try_exchange("edge", 1, &round(number, &[(1, 1)]))
        };
        assert!(totals(store.as_mut().unwrap()).is_ok());
        server.stop();
        thread::sleep(Duration::from_millis(300));
        server.go_on();
        limiter_tests::eventually("rounds go on", || {
            // As an agent does: it keeps the connection unless the error is about it.
            let Some(asked) = &mut store else {
                store = try_connect(&options).ok();
                return false;
            };
            match totals(asked) {
                Ok(_) => true,
                Err(error) => {
                    println!("{}: {error}", program.name);
                    if error.is_of_the_connection() {
                        store = None;
                    }
                    false
                }
            }
        });
    }
}
