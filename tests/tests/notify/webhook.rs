//! A web server is told of each event, again until it has it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::prepared,
    eventually,
    exporter::loopback_up,
    hosts::{Hosts, on},
    need, need_kernel,
    service::{Protocol, Service},
};
use serde_json::Value;

use super::{Notify, all, told};

/// A server on the host's loopback that gives these answers in turn; an empty one never.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Server {
    fn start(hosts: &Hosts, answers: &'static [&str]) -> Self {
        loopback_up(&hosts.server);
        let listener = on(&hosts.server, || TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let of_thread = Arc::clone(&requests);
        thread::spawn(move || {
            for answer in answers {
                let (stream, _) = listener.accept().unwrap();
                of_thread
                    .lock()
                    .unwrap()
                    .push((Instant::now(), request(&stream)));
                if answer.is_empty() {
                    // It is closed later than the client waits.
                    thread::spawn(move || {
                        thread::sleep(Duration::from_secs(15));
                        drop(stream);
                    });
                } else {
                    let _ = (&stream).write_all(answer.as_bytes());
                }
            }
        });
        Self { address, requests }
    }
}

/// Reads a request with its body.
fn request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {
        let line = head.lines().last().unwrap_or_default().to_lowercase();
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

const DONE: &str = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const MOVED: &str =
    "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn webhook_that_fails_is_called_again_until_it_has_the_event() {
    need_kernel!();
    let hosts = Hosts::new();
    let server = Server::start(&hosts, &[BROKEN, MOVED, "", DONE]);
    let url = format!("http://{}/hook?secret", server.address);
    let notify = Notify::start(&hosts, &["eth0", "--webhook", &url]);
    eventually("four calls", || server.requests.lock().unwrap().len() == 4);
    thread::sleep(Duration::from_secs(1));
    let requests = server.requests.lock().unwrap();
    let first = &requests[0].1;
    let (head, body) = first.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?secret HTTP/1.1\r\n"), "{head}");
    assert!(
        head.to_lowercase()
            .contains("content-type: application/json"),
        "{head}"
    );
    let event: Value = serde_json::from_str(body).unwrap();
    assert_eq!(told(&[event]), all(&[("detached", "begin")]));
    assert!(
        requests.iter().all(|(_, text)| text == first),
        "{requests:?}"
    );
    // One second, two seconds, and four after the ten that the silent one was given.
    for (pair, wait) in requests.windows(2).zip([1, 2, 14]) {
        let wait = Duration::from_secs(wait)..Duration::from_secs(wait + 2);
        let waited = pair[1].0 - pair[0].0;
        assert!(wait.contains(&waited), "{wait:?}: {waited:?}");
    }
    let notes = notify.notes();
    for why in [
        "1 of 10 to deliver it failed: http status: 500",
        "2 of 10 to deliver it failed: http status: 302",
        "3 of 10 to deliver it failed: timeout",
    ] {
        assert!(notes.contains(why), "{why}: {notes}");
    }
    assert!(
        !notes.contains("attempt 4") && !notes.contains("secret"),
        "{notes}"
    );
}

#[test]
fn webhook_gets_the_form_of_its_receiver() {
    need_kernel!();
    let hosts = Hosts::new();
    let formats = ["slack", "discord", "matrix", "ntfy"];
    let served = formats.map(|format| {
        let server = Server::start(&hosts, &[DONE]);
        let url = format!("http://{}/", server.address);
        let options = ["eth0", "--format", format, "--webhook", &url];
        (Notify::start(&hosts, &options), server)
    });
    for (format, (_, server)) in formats.into_iter().zip(&served) {
        eventually(format, || !server.requests.lock().unwrap().is_empty());
        let request = server.requests.lock().unwrap()[0].1.clone();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let head = head.to_lowercase();
        let text = match format {
            "ntfy" => {
                assert!(head.contains("content-type: text/plain"), "{head}");
                assert!(head.contains("eth0: detached begins\r\n"), "{head}");
                assert!(head.contains("priority: high"), "{head}");
                body.to_owned()
            }
            format => {
                assert!(head.contains("content-type: application/json"), "{head}");
                let value: Value = serde_json::from_str(body).unwrap();
                let key = if format == "discord" {
                    "content"
                } else {
                    "text"
                };
                value[key].as_str().unwrap().to_owned()
            }
        };
        let next =
            "limiter is not attached, or its state cannot be read; next: `limiter doctor eth0`";
        assert!(text.contains(next), "{format}: {text}");
    }
}

#[test]
fn webhook_that_refuses_does_not_delay_readings() {
    need_kernel!();
    let hosts = Hosts::new();
    loopback_up(&hosts.server);
    // Nobody listens on port 1.
    let options = ["eth0", "--pause", "0s", "--webhook", "http://127.0.0.1:1/"];
    let notify = Notify::start(&hosts, &options);
    eventually("the refusal", || {
        notify.notes().contains("Connection refused")
    });
    hosts.run("attach eth0 --rate 1k");
    eventually("the next event", || {
        notify.notes().contains("detached ends")
    });
}

#[test]
fn webhook_with_tls_needs_a_certificate_that_the_host_trusts() {
    const TEST: &str = "webhook_with_tls_needs_a_certificate_that_the_host_trusts";
    need_kernel!();
    if !need::program(TEST, "openssl") {
        return;
    }
    let hosts = Hosts::new();
    loopback_up(&hosts.server);
    let folder = tempfile::tempdir().unwrap();
    let [key, certificate] = ["key", "certificate"].map(|name| folder.path().join(name));
    let mut make = Command::new("openssl");
    make.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]);
    make.args([
        "-days",
        "2",
        "-subj",
        "/CN=hook",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]);
    make.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    assert!(make.output().unwrap().status.success());
    // It answers each request with a page, whatever the method.
    let line = format!(
        "openssl s_server -accept 127.0.0.1:8443 -www -quiet -key {} -cert {}",
        key.display(),
        certificate.display()
    );
    let line: Vec<_> = line.split(' ').collect();
    let _server = Service::start(&hosts.server, &line, Protocol::Tcp, 8443);
    let url = "https://127.0.0.1:8443/";
    let stranger = Notify::start(&hosts, &["eth0", "--webhook", url]);
    eventually("the refusal", || stranger.notes().contains("UnknownIssuer"));
    let mut command = prepared(&["notify", "--window", "1s", "eth0"]);
    command
        .env("SSL_CERT_FILE", &certificate)
        .env("LIMITER_WEBHOOK", url);
    let trusting = Notify::of(&hosts, command);
    eventually("the event", || trusting.notes().contains("detached begins"));
    thread::sleep(Duration::from_secs(2));
    assert!(!trusting.notes().contains("failed"), "{}", trusting.notes());
}

#[test]
fn test_event_tells_what_the_server_answered() {
    const REFUSED: &str =
        "HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\nConnection: close\r\n\r\nno_service";
    need_kernel!();
    let hosts = Hosts::new();
    let server = Server::start(&hosts, &[DONE, REFUSED]);
    let url = format!("http://{}/hook?secret", server.address);
    let line = ["notify", "--test", "--format", "ntfy", "--webhook", &url];
    let taken = hosts.limiter(&line);
    taken.expect(0);
    for words in [
        "sent to 127.0.0.1:\nContent-Type: text/plain; charset=utf-8\nTitle: ",
        ": all: test of limiter notify: nothing has happened",
        "taken: http status: 204 No Content",
    ] {
        assert!(taken.stdout.contains(words), "'{words}': {taken:#?}");
    }
    assert!(!taken.stdout.contains("secret"), "{taken:#?}");
    let refused = hosts.limiter(&line);
    let words = "127.0.0.1 did not take it: http status: 404 Not Found, \"no_service\"";
    refused.expect(1);
    assert!(refused.stderr.contains(words), "{refused:#?}");
    let requests = server.requests.lock().unwrap();
    assert_eq!(requests.len(), 2, "one attempt each");
    assert!(
        requests[0].1.contains("all: test of limiter notify"),
        "{requests:?}"
    );
}
