//! Packets of the host's established connections are neither dropped nor charged, so that real servers keep their
//! speed.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Child,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use limiter_tests::{
    SetOnDrop,
    hosts::{Hosts, SERVER, on},
    need::{program, tool},
    need_kernel, number,
    recipes::recipe,
    service::{Protocol, Service, nginx_in, printed, spawn},
};

/// Port of the server that takes uploads.
const UPLOADS: u16 = 9_000;

/// Uploads from the client at full speed while `work` runs. Returns the result of `work`, and the number of bytes.
fn during_upload<T>(hosts: &Hosts, work: impl FnOnce() -> T) -> (T, u64) {
    let listener = on(&hosts.server, || TcpListener::bind((SERVER, UPLOADS))).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut connection, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 16];
            let mut bytes = 0;
            while let Ok(count @ 1..) = connection.read(&mut buffer) {
                bytes += count as u64;
            }
            bytes
        });
        let destination = SocketAddr::new(SERVER, UPLOADS);
        let mut sender = on(&hosts.client, || TcpStream::connect(destination)).unwrap();
        let done = &done;
        scope.spawn(move || {
            let data = vec![0; 1 << 16];
            while !done.load(Ordering::Relaxed) && sender.write_all(&data).is_ok() {}
        });
        let result = {
            let _end = SetOnDrop(done);
            work()
        };
        (result, receiver.join().unwrap())
    })
}

/// Number of packets that the limit on connections of a recipe has admitted, and that other limits have dropped. The limit
/// itself drops what a fast machine sends beyond 100,000 packets per second.
fn of_connections_and_dropped(hosts: &Hosts) -> (u64, u64) {
    let status = hosts.status();
    let mut limits = status["limits"].as_array().unwrap().iter();
    let limit = limits.find(|limit| limit["name"] == "connections").unwrap();
    (
        number(&limit["passed"]["packets"]),
        number(&status["dropped"]["packets"]) - number(&limit["dropped"]["packets"]),
    )
}

/// A web server on port 80 of the server. It keeps connections open.
struct Web {
    _server: Service,
    _folder: tempfile::TempDir,
}

impl Web {
    fn start(hosts: &Hosts) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        fs::write(folder.path().join("index.html"), "limited").unwrap();
        let configuration = format!("{} server {{ listen 80; root {path}; }} }}", nginx_in(path));
        let file = folder.path().join("nginx.conf");
        fs::write(&file, configuration).unwrap();
        let line = ["nginx", "-c", file.to_str().unwrap(), "-e", "/dev/null"];
        Self {
            _server: Service::start(&hosts.server, &line, Protocol::Tcp, 80),
            _folder: folder,
        }
    }

    /// Requests per second of one client with two connections.
    fn requests_per_second(hosts: &Hosts) -> f64 {
        let url = format!("http://{SERVER}/index.html");
        let text = printed(spawn(&hosts.client, &["wrk", "-t1", "-c2", "-d1s", &url]));
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Requests/sec:"));
        line.unwrap_or_else(|| panic!("{text}"))
            .trim()
            .parse()
            .unwrap()
    }
}

/// Compares the best of several rounds with and without limiter: at least a third, because the machine may be busy with
/// other tests.
#[test]
fn web_server_under_its_recipe_keeps_its_speed() {
    const TEST: &str = "web_server_under_its_recipe_keeps_its_speed";
    need_kernel!();
    if !program(TEST, "nginx") || !tool(TEST, "wrk") {
        return;
    }
    // The client is one of the addresses that the recipe allows.
    let recipe = recipe("web").replace("allow = [\"192.0.2.0/28\"]", "allow = []");
    let hosts = Hosts::new();
    let _web = Web::start(&hosts);
    let (mut without, mut limited) = (0.0_f64, 0.0_f64);
    for _ in 0..3 {
        without = without.max(Web::requests_per_second(&hosts));
        hosts.attach_file(&recipe);
        limited = limited.max(Web::requests_per_second(&hosts));
        let (admitted, dropped) = of_connections_and_dropped(&hosts);
        assert_eq!(dropped, 0, "{admitted} packets of connections passed");
        assert!(admitted > 0);
        hosts.run("detach eth0");
    }
    println!("{limited:.0} requests/s of {without:.0} without limiter");
    assert!(limited > without / 3.0, "{limited} of {without} requests/s");
}

/// An SSH server on the server's port 22, and a client with a key.
struct Ssh {
    _server: Service,
    folder: tempfile::TempDir,
}

impl Ssh {
    fn start(hosts: &Hosts) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for name in ["host", "client"] {
            let line = ["dropbearkey", "-t", "ed25519", "-f", &key(name)];
            let _ = printed(spawn(&hosts.server, &line));
        }
        let line = format!("dropbear -F -s -p 22 -r {} -P {}", key("host"), key("pid"));
        let line: Vec<_> = line.split(' ').collect();
        let server = Service::start(&hosts.server, &line, Protocol::Tcp, 22);
        Self {
            _server: server,
            folder,
        }
    }

    /// Opens a connection up to the authentication. The login fails because the key is unknown, but the key exchange
    /// takes place.
    fn session(&self, hosts: &Hosts) -> Child {
        let key = self.folder.path().join("client");
        let line = format!("dbclient -y -T -i {} nobody@{SERVER} true", key.display());
        spawn(&hosts.client, &line.split(' ').collect::<Vec<_>>())
    }
}

#[test]
fn ssh_sessions_open_during_an_upload_through_the_bastion() {
    const TEST: &str = "ssh_sessions_open_during_an_upload_through_the_bastion";
    need_kernel!();
    if !["dropbear", "dropbearkey", "dbclient"]
        .iter()
        .all(|name| program(TEST, name))
    {
        return;
    }
    let hosts = Hosts::new();
    let ssh = Ssh::start(&hosts);
    hosts.attach_file(recipe("ssh"));
    let sessions = || {
        (0..4).for_each(|number| {
            let output = ssh.session(&hosts).wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(text.contains("No auth methods"), "session {number}: {text}");
        });
    };
    let ((), bytes) = during_upload(&hosts, sessions);
    assert!(bytes > 0);
    assert_eq!(of_connections_and_dropped(&hosts).1, 0);
}
