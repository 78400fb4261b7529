//! The exporter answers only allowed requests, and survives hostile clients.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::prepared,
    eventually,
    exporter::{Answer, Exporter},
    hosts::{Hosts, SERVER, on},
    need_kernel,
};
use nix::sys::signal::{Signal, kill};

#[test]
fn only_get_and_head_are_allowed() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    for path in [
        "/",
        "/style.css",
        "/script.js",
        "/chart.js",
        "/icon.svg",
        "/metrics",
        "/healthz",
        "/api/status",
    ] {
        let answer = exporter.ask("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(!answer.body.is_empty(), "{path}");
        let head = exporter.ask("HEAD", path, "");
        assert_eq!(
            (head.status, head.body.as_str()),
            (200, ""),
            "{path}: {head:?}"
        );
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let answer = exporter.ask(method, path, "Content-Length: 0\r\n");
            assert_eq!(answer.status, 405, "{method} {path}: {answer:?}");
            assert_eq!(answer.headers["allow"], "GET,HEAD", "{method} {path}");
        }
    }
    assert_eq!(exporter.ask("GET", "/../etc/passwd", "").status, 404);
}

#[test]
fn responses_have_security_headers() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    for path in ["/", "/metrics", "/api/status", "/nowhere"] {
        let headers = exporter.ask("GET", path, "").headers;
        let policy = &headers["content-security-policy"];
        let strict = policy.starts_with("default-src 'none';") && !policy.contains("unsafe");
        let own = !policy.contains("http") && policy.contains("frame-ancestors 'none'");
        assert!(strict && own, "{path}: {policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        assert!(
            !headers.contains_key("access-control-allow-origin"),
            "{path}"
        );
    }
}

#[test]
fn metrics_format_is_negotiated() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    let open = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    for (accept, kind, is_open) in [
        ("", "text/plain; version=0.0.4; charset=utf-8", false),
        (
            open,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            true,
        ),
    ] {
        let answer = exporter.ask("GET", "/metrics", accept);
        assert_eq!(answer.headers["content-type"], kind);
        assert_eq!(answer.body.ends_with("# EOF\n"), is_open, "{}", answer.body);
    }
}

/// Reads a connection until the other end closes it.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The connection ends with a reset if the exporter has left data unread.
    let _ = stream.read_to_end(&mut bytes);
    bytes
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
    for (request, status) in [(long, "431"), (many, "431"), (garbage, "400")] {
        let mut stream = exporter.connect();
        let _ = stream.write_all(request.as_bytes());
        let text = String::from_utf8(rest(stream)).unwrap();
        let right = text.is_empty() || text.starts_with(&format!("HTTP/1.1 {status}"));
        assert!(right, "{status}: {text}");
    }
    // The exporter does not wait for a request's body, and closes the connection.
    let mut stream = exporter.connect();
    let endless = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n";
    stream.write_all(endless).unwrap();
    assert_eq!(Answer::read(&mut stream).status, 200);
    assert_eq!(exporter.get("/healthz"), "ok\n");
}

/// The slow clients are 300 that begin a request and do not finish it.
#[test]
fn slow_clients_do_not_block_others() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 10/s");
    let exporter = Exporter::start(&hosts.server);
    let before = exporter.descriptors();
    let start = Instant::now();
    let slow: Vec<TcpStream> = (0..300)
        .map(|i| {
            let mut stream = exporter.connect();
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                .unwrap();
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
            stream
                .set_write_timeout(Some(Duration::from_millis(200)))
                .unwrap();
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
        let opened = Instant::now();
        let mut idle = exporter.connect();
        idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        assert_ne!(idle.read(&mut [0; 1024]).unwrap(), 0);
        let mut slow = exporter.connect();
        slow.write_all(b"GET /healthz HTT").unwrap();
        let address = exporter.address;
        let status = exporter.end(signal);
        // The exporter did not wait for the clients' timeouts.
        assert!(opened.elapsed() < Duration::from_secs(10), "{signal}");
        assert_eq!(status.code(), Some(0), "{signal}: {status}");
        assert!(
            on(&hosts.server, || TcpStream::connect(address)).is_err(),
            "{signal}"
        );
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
    for (listen, foreign) in [("127.0.0.1:0", 421), ("192.0.2.1:0", 200)] {
        let exporter = Exporter::start_at(&hosts.server, listen);
        for (headers, status) in [
            (b"Host: 127.0.0.1\r\n".as_slice(), 200),
            (b"Host: localhost:1\r\n", 200),
            (b"Host: evil.example\r\n", foreign),
            (b"Host: 127.0.0.1\r\nHost: example.com\r\n", 400),
            (b"Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n", 400),
            (b"Host: \xff\r\n", 400),
            (b"Host: ex\xe4mple.com\r\n", 400),
            (b"Host: 127.0.0.1\xc3\x28\r\n", 400),
        ] {
            for path in ["/", "/api/status", "/metrics"] {
                let mut stream = exporter.connect();
                let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
                let request = [request.as_bytes(), headers, b"\r\n"].concat();
                stream.write_all(&request).unwrap();
                let shown = String::from_utf8_lossy(headers);
                let answer = Answer::read(&mut stream);
                assert_eq!(answer.status, status, "{listen}: {path}: {shown}");
            }
        }
    }
}

#[test]
fn listen_errors_are_reported() {
    need_kernel!();
    let hosts = Hosts::new();
    let taken = on(&hosts.server, || TcpListener::bind((SERVER, 0))).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let listen = |address: &str| hosts.limiter(&["export", "--listen", address]);
    listen(&address).expect_error(1, &[&address, "Address already in use", "--listen"]);
    listen("198.51.100.1:10546").expect_error(
        1,
        &[
            "198.51.100.1:10546",
            "no interface",
            "`ip address`",
            "--listen",
        ],
    );
    for nonsense in ["nonsense", "127.0.0.1", "localhost:10546"] {
        listen(nonsense).expect_error(2, &[nonsense, "--listen", "127.0.0.1:10546"]);
    }
    let mut unprivileged = prepared(&["export", "--listen", "127.0.0.1:0"]);
    use std::os::unix::process::CommandExt;
    unprivileged.uid(65_534).gid(65_534);
    let outcome = unprivileged.output().unwrap();
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    assert!(
        String::from_utf8_lossy(&outcome.stderr).contains("CAP_BPF"),
        "{outcome:?}"
    );
}

#[test]
fn listening_on_a_reachable_address_prints_a_warning() {
    need_kernel!();
    let hosts = Hosts::new();
    for (listen, is_local) in [("192.0.2.1:0", false), ("127.0.0.1:0", true)] {
        let exporter = Exporter::start_at(&hosts.server, listen);
        kill(exporter.process(), Signal::SIGTERM).unwrap();
        let (status, warning) = exporter.wait();
        assert!(status.success(), "{warning}");
        assert_eq!(
            warning.contains("without a password"),
            !is_local,
            "{warning}"
        );
        assert_eq!(warning.is_empty(), is_local, "{warning}");
    }
}
