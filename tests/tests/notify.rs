//! `limiter notify` tells a program or a web server once when something begins, and once when it ends; whatever goes
//! wrong, the limits stay.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::{PermissionsExt, chown},
    path::PathBuf,
    process::{Child, Command, Stdio},
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
    processes::{helper_of, status_of},
    raw::Raw,
    schema,
    service::{Protocol, Service},
    traffic::{Flood, udp},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// A running `limiter notify` on the server, with short times.
struct Notify {
    process: Child,
    /// Its notes, as far as they were read.
    notes: Arc<Mutex<String>>,
}

impl Notify {
    fn start(hosts: &Hosts, options: &[&str]) -> Self {
        let mut command = prepared(&["notify", "--drops", "500/s", "--window", "3s"]);
        command.args(options);
        Self::of(hosts, command)
    }

    fn of(hosts: &Hosts, mut command: Command) -> Self {
        command.stderr(Stdio::piped());
        let mut process = on(&hosts.server, || command.spawn()).unwrap();
        let notes = Arc::new(Mutex::new(String::new()));
        let (lines, stderr) = (Arc::clone(&notes), process.stderr.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let line = line.unwrap();
                println!("{line}");
                *lines.lock().unwrap() += &(line + "\n");
            }
        });
        Self { process, notes }
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap())
    }

    fn notes(&self) -> String {
        self.notes.lock().unwrap().clone()
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program in a folder that everybody may use, and the events that it has written there.
struct Program {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let path = folder.path().join("on-event");
        fs::write(
            &path,
            text.replace("FOLDER", folder.path().to_str().unwrap()),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, path }
    }

    /// A program that keeps its input.
    fn keeping() -> Self {
        Self::new("#!/bin/sh\ncat >>FOLDER/events\necho >>FOLDER/events\n")
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    fn kept(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn events(&self) -> Vec<Value> {
        let text = self.kept("events");
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn told(events: &[Value]) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let events = events.iter();
    events
        .map(|event| (word(&event["event"]), word(&event["state"])))
        .collect()
}

fn all(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(event, state)| ((*event).to_owned(), (*state).to_owned()))
        .collect()
}

/// 2,000 packets a second, nearly all over the limit.
fn flood(hosts: &Hosts) -> Flood {
    let frame = udp(hosts, "198.51.100.7".parse().unwrap(), 9);
    Flood::start(hosts, vec![frame], Duration::from_micros(500))
}

#[test]
fn program_is_told_of_a_flood_once_when_it_begins_and_once_when_it_ends() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let program = Program::keeping();
    let notify = Notify::start(&hosts, &["--exec", program.path()]);
    let flooding = flood(&hosts);
    eventually("the flood begins", || !program.events().is_empty());
    // It goes on, and is not told again.
    thread::sleep(Duration::from_secs(6));
    assert_eq!(told(&program.events()), all(&[("flood", "begin")]));
    flooding.end();
    eventually("the flood ends", || program.events().len() > 1);
    let events = program.events();
    assert_eq!(told(&events), all(&[("flood", "begin"), ("flood", "end")]));
    let [begin, end] = &events[..] else {
        panic!("{events:?}")
    };
    for event in &events {
        assert_eq!(event["interface"], "eth0");
        assert_eq!(event["status"]["name"], "eth0");
        assert_eq!(event["table_percent"], 0);
        if schema::has_validator("notify") {
            assert_eq!(schema::faults("notify", event), "");
        }
    }
    let rate = begin["drops_per_second"].as_f64().unwrap();
    assert!((500.0..5_000.0).contains(&rate), "{rate}");
    assert_eq!(begin["reason"], "limit");
    assert_eq!(end["drops_per_second"], 0.0);
    assert!(
        notify.notes().contains("eth0: flood begins"),
        "{}",
        notify.notes()
    );
    // Another flood within the pause is not told.
    let flooding = flood(&hosts);
    thread::sleep(Duration::from_secs(8));
    flooding.end();
    assert_eq!(program.events().len(), 2);
}

#[test]
fn full_table_and_end_of_the_attachment_are_told() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = "attach eth0 --rate 1/h --burst 1 --max-sources 100";
    hosts.run(attach);
    let program = Program::keeping();
    let options = ["--exec", program.path(), "--pause", "0s", "eth0"];
    let notify = Notify::start(&hosts, &options);
    let wire = Raw::open(&hosts.client);
    for last in 0..200 {
        wire.send(&udp(&hosts, [198, 51, 100, last].into(), 9));
    }
    eventually("the full table", || program.events().len() == 1);
    assert_eq!(program.events()[0]["table_percent"], 100);
    hosts.run("detach eth0");
    eventually("the end of the attachment", || program.events().len() == 3);
    hosts.run(attach);
    eventually("the new attachment", || program.events().len() == 4);
    let mut events = program.events();
    // The table and the attachment end at once.
    events[1..3].sort_by_key(|event| event["state"].to_string());
    let wanted = [
        ("table-full", "begin"),
        ("detached", "begin"),
        ("table-full", "end"),
        ("detached", "end"),
    ];
    assert_eq!(told(&events), all(&wanted));
    assert!(events[1]["status"].is_null());
    if schema::has_validator("notify") {
        assert_eq!(schema::faults("notify", &events[1]), "");
    }
    // The end of notify changes nothing.
    let status = hosts.status();
    drop(notify);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(hosts.status(), status);
}

#[test]
fn only_chosen_events_of_chosen_interfaces_are_told() {
    need_kernel!();
    let hosts = Hosts::new();
    let program = Program::keeping();
    // An interface that was never attached is told of by name, and no other.
    let named = ["eth0", "--exec", program.path()];
    let _named = Notify::start(&hosts, &named);
    let other = Program::keeping();
    let _all = Notify::start(&hosts, &["--exec", other.path()]);
    let third = Program::keeping();
    let floods = ["eth0", "--on", "flood", "--exec", third.path()];
    let _floods = Notify::start(&hosts, &floods);
    eventually("eth0 is not attached", || !program.events().is_empty());
    assert_eq!(told(&program.events()), all(&[("detached", "begin")]));
    thread::sleep(Duration::from_secs(3));
    assert!(other.events().is_empty() && third.events().is_empty());
}

#[test]
fn program_that_hangs_is_ended_with_its_children_and_run_again() {
    need_kernel!();
    let hosts = Hosts::new();
    let program = Program::new(
        "#!/bin/sh\n[ -e FOLDER/first ] && { cat >FOLDER/events; exit; }\n\
         sleep 1000 & echo $! >FOLDER/child; touch FOLDER/first; wait\n",
    );
    let notify = Notify::start(&hosts, &["eth0", "--exec", program.path()]);
    eventually("the first attempt", || !program.kept("child").is_empty());
    eventually("the second attempt", || !program.kept("events").is_empty());
    let child = program.kept("child");
    eventually("the end of the child", || {
        // It is a zombie until its new parent looks.
        let status = fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        status.map_or(true, |status| status.contains(") Z "))
    });
    let notes = notify.notes();
    assert!(
        notes.contains("attempt 1 of 10 to deliver it failed: deadline has elapsed"),
        "{notes}"
    );
    assert!(!notes.contains("attempt 2"), "{notes}");
}

#[test]
fn program_and_notify_have_no_privileges() {
    need_kernel!();
    let hosts = Hosts::new();
    let text =
        "#!/bin/sh\n{ cat /proc/$$/status; ls -l /proc/$$/fd; echo args: $#; } >FOLDER/events\n";
    for owner in [0, 1234] {
        let program = Program::new(text);
        chown(&program.path, Some(owner), Some(owner)).unwrap();
        let notify = Notify::start(&hosts, &["eth0", "--exec", program.path()]);
        let user = if owner == 0 { 65_533 } else { owner };
        let ids = format!("{user}\t{user}\t{user}\t{user}");
        eventually("the program", || program.kept("events").contains("args"));
        let own = fs::read_to_string(format!("/proc/{}/status", notify.id())).unwrap();
        let of_program = program.kept("events");
        for status in [&own, &of_program] {
            for field in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                assert!(
                    status.contains(&format!("{field}:\t0000000000000000\n")),
                    "{status}"
                );
            }
            for line in [
                format!("Uid:\t{ids}"),
                format!("Gid:\t{ids}"),
                "NoNewPrivs:\t1".to_owned(),
            ] {
                assert!(status.contains(&line), "{line}: {status}");
            }
        }
        // No map, link or socket of limiter.
        let leaked = ["anon_inode", "socket:"]
            .iter()
            .any(|kind| of_program.contains(kind));
        assert!(of_program.contains("args: 0\n") && !leaked, "{of_program}");
        assert_eq!(
            status_of(helper_of(notify.id()), "CapEff")
                .trim_start_matches('0')
                .len(),
            10
        );
    }
}

#[test]
fn program_gets_an_environment_without_secrets() {
    need_kernel!();
    let hosts = Hosts::new();
    let program = Program::new("#!/bin/sh\n{ env; pwd; echo end; } >FOLDER/events\n");
    let mut command = prepared(&["notify", "--window", "1s", "eth0", "--exec", program.path()]);
    command.envs([
        ("LIMITER_TOKEN", "secret"),
        ("SSH_AUTH_SOCK", "/root/agent"),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
        ("PATH", "/usr/bin:/bin"),
    ]);
    let _notify = Notify::of(&hosts, command);
    eventually("the program", || program.kept("events").contains("end"));
    let text = program.kept("events");
    let lines: std::collections::BTreeSet<_> = text.lines().collect();
    for line in [
        "HOME=/",
        "LANG=C.UTF-8",
        "TZ=UTC",
        "PATH=/usr/bin:/bin",
        "/",
    ] {
        assert!(lines.contains(line), "{line}: {text}");
    }
    // The shell adds the last two.
    let known = [
        "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PATH", "PWD", "OLDPWD", "_", "SHLVL",
    ];
    let names = lines
        .iter()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name);
    assert_eq!(
        names.filter(|name| !known.contains(name)).count(),
        0,
        "{text}"
    );
}

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
fn end_of_either_process_ends_the_other_and_keeps_the_limits() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let program = Program::keeping();
    let status = hosts.status();
    let mut notify = Notify::start(&hosts, &["--exec", program.path()]);
    eventually("a helper", || {
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", notify.id()))
            .is_ok_and(|children| !children.is_empty())
    });
    let helper = helper_of(notify.id());
    kill(helper, Signal::SIGKILL).unwrap();
    assert_eq!(notify.process.wait().unwrap().code(), Some(1));
    eventually("the reason", || {
        notify.notes().contains("the helper process has ended")
    });
    let mut notify = Notify::start(&hosts, &["--exec", program.path()]);
    eventually("a helper", || {
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", notify.id()))
            .is_ok_and(|children| !children.is_empty())
    });
    let helper = helper_of(notify.id());
    notify.process.kill().unwrap();
    eventually("its end", || {
        kill(helper, None).is_err() || status_of(helper, "State").starts_with('Z')
    });
    let mut notify = Notify::start(&hosts, &["--exec", program.path()]);
    eventually("a helper", || {
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", notify.id()))
            .is_ok_and(|children| !children.is_empty())
    });
    thread::sleep(Duration::from_secs(1));
    kill(notify.id(), Signal::SIGTERM).unwrap();
    assert_eq!(notify.process.wait().unwrap().code(), Some(0));
    assert_eq!(hosts.status(), status);
}

#[test]
fn wrong_command_lines_name_the_mistake() {
    need_kernel!();
    let hosts = Hosts::new();
    let program = Program::keeping();
    fs::set_permissions(&program.path, fs::Permissions::from_mode(0o644)).unwrap();
    let missing = format!("{}-none", program.path());
    for (words, status, why) in [
        (&["notify"][..], 2, "--exec <PATH>|--webhook <URL>"),
        (
            &["notify", "--exec", "/bin/true", "--webhook", "http://a/"],
            2,
            "cannot be used with",
        ),
        (
            &["notify", "--exec", "on-event"],
            2,
            "not an absolute path of a file: write one as in",
        ),
        (
            &["notify", "--exec", "/tmp"],
            2,
            "not an absolute path of a file",
        ),
        (
            &["notify", "--webhook", "chat.example/hook"],
            2,
            "not a URL: write one as in",
        ),
        (
            &["notify", "--webhook", "ftp://chat.example/hook"],
            2,
            "not a URL",
        ),
        (
            &["notify", "--exec", "/bin/true", "--on", "floods"],
            2,
            "possible values: flood, table-full, detached",
        ),
        (
            &["notify", "--exec", "/bin/true", "--full", "101"],
            2,
            "--full",
        ),
        (
            &["notify", "--exec", "/bin/true", "--window", "0s"],
            2,
            "write 1s to 1day",
        ),
        (
            &["notify", "--exec", program.path()],
            1,
            "user 65533 cannot run",
        ),
        (&["notify", "--exec", &missing], 1, "No such file"),
    ] {
        let outcome = hosts.limiter(words);
        outcome.expect(status);
        assert!(outcome.stderr.contains(why), "{why}: {}", outcome.stderr);
    }
}
