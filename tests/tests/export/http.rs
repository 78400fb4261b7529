//! The exporter answers only allowed requests, and survives hostile clients.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::{Outcome, prepared},
    eventually,
    exporter::{Answer, Exporter},
    hosts::{Hosts, SERVER, on},
    need_kernel,
};
use nix::sys::signal::{Signal, kill};

#[test]
fn only_get_and_head_are_allowed_and_headers_forbid_the_rest() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/script.js", "text/javascript; charset=utf-8"),
        ("/chart.js", "text/javascript; charset=utf-8"),
        ("/rates.js", "text/javascript; charset=utf-8"),
        ("/text.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/healthz", "text/plain; charset=utf-8"),
        ("/api/status", "application/json"),
        ("/api/history", "application/json"),
    ] {
        let answer = exporter.ask("GET", path);
        expect_strict_headers(&answer);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(answer.headers["content-type"], kind, "{path}");
        assert!(!answer.body.is_empty(), "{path}");
        let head = exporter.ask("HEAD", path);
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let answer = exporter.ask(method, path);
            assert_eq!(answer.status, 405, "{method} {path}: {answer:?}");
            assert_eq!(answer.headers["allow"], "GET,HEAD", "{method} {path}");
        }
    }
    let missing = exporter.ask("GET", "/../etc/passwd");
    expect_strict_headers(&missing);
    assert_eq!(missing.status, 404);
}

fn expect_strict_headers(answer: &Answer) {
    let headers = &answer.headers;
    let policy = &headers["content-security-policy"];
    let strict = policy.starts_with("default-src 'none';") && !policy.contains("unsafe");
    let own = !policy.contains("http") && policy.contains("frame-ancestors 'none'");
    assert!(strict && own, "{policy}");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["cache-control"], "no-store");
    assert!(!headers.contains_key("access-control-allow-origin"));
}

#[test]
fn requests_are_bounded() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(20_000)
    );
    let lines = "X-Nothing: x\r\n".repeat(500);
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
    let garbage = "\x16\x03\x01\x02\0 no HTTP at all\r\n\r\n".to_owned();
    // The exporter does not wait for a request's body.
    let endless =
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n".to_owned();
    for (request, status) in [(long, 431), (many, 431), (garbage, 400), (endless, 200)] {
        let answer = exporter.send(request.as_bytes());
        // The connection ends with a reset if the exporter has left data unread.
        let right = answer.is_none_or(|answer| answer.status == status);
        assert!(right, "{status}");
    }
    assert_eq!(exporter.get("/healthz"), "ok\n");
}

/// The slow clients are 300 that begin a request and do not finish it.
#[test]
fn slow_clients_do_not_block_others() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 10/s");
    let exporter = Exporter::start(&hosts.server);
    let (before, start) = (exporter.descriptors(), Instant::now());
    let begun = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    let slow: Vec<TcpStream> = (0..300)
        .map(|i| {
            let mut stream = exporter.connect();
            stream.write_all(begun).unwrap();
            if i % 50 == 0 {
                assert_eq!(exporter.get("/healthz"), "ok\n");
            }
            stream
        })
        .collect();
    assert!(exporter.samples().len() > 10);
    let open = exporter.descriptors().saturating_sub(before);
    assert!(open <= 70, "{open} connections are open");
    // The exporter closes the remaining connections after a timeout, which single bytes do not extend.
    let trickle = |mut stream: &TcpStream| {
        (0..600).all(|_| {
            thread::sleep(Duration::from_millis(100));
            stream.write_all(b"x").is_ok()
        })
    };
    assert!(!trickle(slow.last().unwrap()), "still open");
    eventually("all are closed", || exporter.descriptors() <= before);
    assert!(
        start.elapsed() >= Duration::from_secs(10),
        "slow clients have ten seconds"
    );
    assert_eq!(exporter.get("/healthz"), "ok\n");
}

#[test]
fn clients_that_do_not_read_do_not_block_others() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    let deaf: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = exporter.connect();
            let patience = Some(Duration::from_millis(200));
            stream.set_write_timeout(patience).unwrap();
            let ask = "GET /script.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
            // Fills the socket.
            let _ = (0..1_000).any(|_| stream.write_all(ask.as_bytes()).is_err());
            stream
        })
        .collect();
    assert_eq!(exporter.get("/healthz"), "ok\n");
    drop(deaf);
    assert!(exporter.memory() < 100 << 20, "{}", exporter.memory());
}

#[test]
fn exporter_ends_on_sigterm_and_sigint() {
    need_kernel!();
    let hosts = Hosts::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let exporter = Exporter::start(&hosts.server);
        // An idle client and a slow client do not delay the end of the exporter.
        let _idle = exporter.connect();
        let mut slow = exporter.connect();
        slow.write_all(b"GET /healthz HTT").unwrap();
        assert_eq!(exporter.get("/healthz"), "ok\n");
        let (address, opened) = (exporter.address, Instant::now());
        kill(exporter.process(), signal).unwrap();
        let (status, text) = exporter.wait();
        assert!(opened.elapsed() < Duration::from_secs(10), "{signal}");
        assert_eq!(status.code(), Some(0), "{signal}: {status}: {text}");
        // Another exporter can listen there at once.
        let listener = on(&hosts.server, || TcpListener::bind(address));
        assert!(listener.is_ok(), "{signal}: {listener:?}");
    }
}

/// Another site's page could use a host name that resolves to this machine. A proxy in front of the exporter could
/// read another name than the exporter.
#[test]
fn foreign_and_ambiguous_host_names_are_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    for (listen, is_local) in [("127.0.0.1:0", true), ("192.0.2.1:0", false)] {
        let exporter = Exporter::start_at(&hosts.server, listen);
        for (headers, status) in [
            (b"Host: 127.0.0.1\r\n".as_slice(), 200),
            (b"Host: localhost:1\r\n", 200),
            (b"Host: evil.example\r\n", if is_local { 421 } else { 200 }),
            (b"Host: 127.0.0.1\r\nHost: example.com\r\n", 400),
            (b"Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n", 400),
            (b"Host: \xff\r\n", 400),
            (b"", 400),
            (b"Host: 127.0.0.1\xc3\x28\r\n", 400),
        ] {
            for path in ["/", "/api/status", "/metrics"] {
                let line = format!("GET {path} HTTP/1.1\r\n");
                let answer = exporter.send(&[line.as_bytes(), headers, b"\r\n"].concat());
                let shown = String::from_utf8_lossy(headers);
                assert_eq!(answer.unwrap().status, status, "{listen}: {path}: {shown}");
            }
        }
        let foreign = if is_local { 421 } else { 200 };
        for (request, status) in [
            ("GET http://127.0.0.1/ HTTP/1.1\r\nHost: evil.example", 200),
            (
                "GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1",
                foreign,
            ),
            (
                "GET http://localhost@evil.example/ HTTP/1.1\r\nHost: localhost",
                foreign,
            ),
            ("GET http://evil.example/ HTTP/1.0", foreign),
            ("GET http://127.0.0.1/ HTTP/1.1", 400),
            ("GET / HTTP/1.0", 200),
        ] {
            let answer = exporter.send(format!("{request}\r\n\r\n").as_bytes());
            assert_eq!(answer.unwrap().status, status, "{listen}: {request}");
        }
        // An address that other machines can reach is reported.
        kill(exporter.process(), Signal::SIGTERM).unwrap();
        let (_, warning) = exporter.wait();
        assert_eq!(warning.is_empty(), is_local, "{warning}");
        assert_eq!(warning.contains("without a password"), !is_local);
    }
}

#[test]
fn listen_errors_are_reported() {
    need_kernel!();
    let hosts = Hosts::new();
    let taken = on(&hosts.server, || TcpListener::bind((SERVER, 0))).unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let example = ["--listen", "127.0.0.1:10546"];
    for (address, status, words) in [
        (&*taken, 1, ["Address already in use", "--listen"]),
        ("198.51.100.1:10546", 1, ["Cannot assign", "--listen"]),
        ("nonsense", 2, example),
        ("198.51.100.1", 1, ["198.51.100.1:10546", "--listen"]),
        ("2001:db8::7", 1, ["[2001:db8::7]:10546", "--listen"]),
        ("localhost:10546", 2, example),
    ] {
        let outcome = hosts.limiter(&["export", "--listen", address]);
        outcome.expect_error(status, &[address, words[0], words[1]]);
    }
    let mut unprivileged = prepared("export --listen 127.0.0.1:0");
    unprivileged.uid(65_534).gid(65_534);
    let outcome = Outcome::of("export".to_owned(), unprivileged.output().unwrap());
    outcome.expect_error(1, &["CAP_BPF"]);
}
