//! Real clients and servers of DNS, and a game server with challenges of its own: a new client is served while new
//! sources are refused.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use limiter_tests::{
    eventually,
    files::Folder,
    forms::checksum,
    hosts::{CLIENT, Hosts, SERVER, on},
    need, need_kernel,
    newcomers::prepare_answers,
    raw::Raw,
};

use super::{Client, DNS, FEW, GAME, INFORMATION, PLAYERS, QUERIES, drops, hosts, protect, proven};

/// The network of the clients, which all run on the client host.
const LINES: &str = "link set lo up\nroute add local 10.77.0.0/16 dev lo\n";

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number)
}

/// A name server of the server host, which knows the address of `www.example.net`.
struct NameServer(
    Child,
    #[expect(dead_code, reason = "removed with the server")] Folder,
);

impl NameServer {
    fn start(hosts: &Hosts) -> Self {
        let folder = Folder::new();
        let place = folder.path("");
        let config = format!(
            "server:\n directory: \"{place}\"\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n use-syslog: no\n interface: {SERVER}\n access-control: 0.0.0.0/0 allow\n local-zone: \"example.net\" static\n local-data: \"www.example.net A 192.0.2.7\"\nremote-control:\n control-enable: no\n"
        );
        let file = folder.write("config", &config);
        hosts.server.namespace.ip("link set lo up\n").unwrap();
        let child = on(&hosts.server, || {
            let mut command = Command::new("unbound");
            let silent = command.args(["-d", "-c", &file]).stderr(Stdio::null());
            silent.stdout(Stdio::null()).spawn().unwrap()
        });
        eventually("a name server", || {
            let asked = on(&hosts.server, || {
                let words = [
                    "+short",
                    "+tries=1",
                    "+time=1",
                    "@192.0.2.1",
                    "www.example.net",
                ];
                Command::new("dig").args(words).output().unwrap()
            });
            asked.stdout == b"192.0.2.7\n"
        });
        Self(child, folder)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of a client on the client host.
fn printed(hosts: &Hosts, words: &[&str]) -> String {
    let output = on(&hosts.client, || {
        Command::new(words[0]).args(&words[1..]).output().unwrap()
    });
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn new_clients_of_a_name_server_are_served_over_tcp_and_then_over_udp() {
    need_kernel!();
    for name in ["unbound", "dig", "kdig"] {
        if !need::program("name servers", name) {
            return;
        }
    }
    let hosts = Hosts::of_both_families();
    hosts.client.namespace.ip(LINES).unwrap();
    prepare_answers(&hosts);
    let _server = NameServer::start(&hosts);
    protect(&hosts, &format!("{FEW}{DNS}"));
    let mut number = 0;
    for (client, options) in [
        ("dig", &["+tries=1", "+time=2"][..]),
        ("dig", &["+tries=1", "+time=2", "+noedns"]),
        ("kdig", &["+retry=0", "+time=2"]),
        ("kdig", &["+retry=0", "+time=2", "+cookie"]),
    ] {
        number += 1;
        let own = address(number).to_string();
        let ask = |more: &[&str]| {
            let question = ["-b", &own, "@192.0.2.1", "www.example.net"];
            printed(&hosts, &[&[client][..], options, more, &question].concat())
        };
        let known = proven(&hosts);
        assert_eq!(ask(&["+short"]).trim(), "192.0.2.7", "{client} {options:?}");
        assert_eq!(proven(&hosts), known + 1, "{client} {options:?}");
        // Its next question gets the whole answer over UDP: without a second question over TCP.
        let next = ask(&["+ignore"]);
        assert!(
            next.contains("192.0.2.7") && !next.contains(" tc"),
            "{next}"
        );
    }
    assert_eq!(
        drops(&hosts, "answered"),
        2 * u64::from(number),
        "a question and a SYN each"
    );
}

#[test]
fn stub_resolver_of_the_c_library_is_served_over_tcp() {
    need_kernel!();
    if !need::program("the stub resolver", "unbound") {
        return;
    }
    let (hosts, folder) = (Hosts::of_both_families(), Folder::new());
    prepare_answers(&hosts);
    let _server = NameServer::start(&hosts);
    protect(&hosts, &format!("{FEW}{DNS}"));
    let file = folder.write("resolv.conf", format!("nameserver {SERVER}\n"));
    let script =
        format!("mount --bind {file} /etc/resolv.conf && exec getent ahostsv4 www.example.net");
    let found = printed(&hosts, &["unshare", "--mount", "sh", "-c", &script]);
    assert!(found.contains("192.0.2.7"), "{found}");
    let status = hosts.status();
    assert_eq!(proven(&hosts), 1, "{CLIENT}: {status}");
}

/// A game server that answers queries with a challenge of its own.
fn game_server(hosts: &Hosts) {
    const OWN: [u8; 4] = [0x11, 0x22, 0x33, 0x44];
    let socket = on(&hosts.server, || {
        UdpSocket::bind((SERVER, QUERIES)).unwrap()
    });
    // It ends with the process.
    thread::spawn(move || {
        let mut query = [0; 64];
        while let Ok((length, client)) = socket.recv_from(&mut query) {
            let answer = if query[..length].ends_with(&OWN) {
                b"\xff\xff\xff\xffIserver".to_vec()
            } else {
                [&b"\xff\xff\xff\xffA"[..], &OWN].concat()
            };
            let _ = socket.send_to(&answer, client);
        }
    });
}

/// The server's answer to a query, from this address, after as many challenges.
fn query(hosts: &Hosts, from: Ipv4Addr, begin: &[u8], first: &[u8]) -> Option<(Vec<u8>, u32)> {
    let socket = on(&hosts.client, || {
        UdpSocket::bind(SocketAddrV4::new(from, 0)).unwrap()
    });
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let server = SocketAddr::new(SERVER, QUERIES);
    let (mut challenge, mut answer) = (first.to_vec(), [0; 64]);
    for challenges in 0..5 {
        socket
            .send_to(&[begin, &challenge].concat(), server)
            .unwrap();
        let (length, _) = socket.recv_from(&mut answer).ok()?;
        if answer[4] != b'A' {
            return Some((answer[4..length].to_vec(), challenges));
        }
        challenge = answer[5..length].to_vec();
    }
    None
}

#[test]
fn new_client_of_a_game_server_follows_two_challenges_and_later_one() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{GAME}"));
    hosts.client.namespace.ip(LINES).unwrap();
    game_server(&hosts);
    let served = |challenges: u32| Some((b"Iserver".to_vec(), challenges));
    // Libraries begin in these ways.
    let beginnings: [(&[u8], &[u8]); 4] = [
        (INFORMATION, b""),
        (INFORMATION, &[0xff; 4]),
        (&PLAYERS[..5], &[0xff; 4]),
        (&PLAYERS[..5], &[0; 4]),
    ];
    for (number, (begin, first)) in (1..).zip(beginnings) {
        let from = address(number);
        assert_eq!(query(&hosts, from, begin, first), served(2), "{number}");
        assert_eq!(query(&hosts, from, begin, first), served(1), "{number}");
    }
    assert_eq!((drops(&hosts, "answered"), proven(&hosts)), (4, 4));
}

#[test]
fn new_clients_are_served_during_a_flood_of_queries() {
    need_kernel!();
    let hosts = Hosts::of_both_families();
    hosts.client.namespace.ip(LINES).unwrap();
    prepare_answers(&hosts);
    game_server(&hosts);
    let few = FEW
        .replace("1/h", "1k/s")
        .replace("burst = 4", "burst = 1000");
    hosts.attach_file(&format!("{few}{GAME}"));
    let over = AtomicBool::new(false);
    let (served, sent) = thread::scope(|scope| {
        let flood = scope.spawn(|| flood(&hosts, &over));
        eventually("refusals", || drops(&hosts, "answered") > 1_000);
        let served =
            (1..=60).filter(|number| query(&hosts, address(*number), INFORMATION, b"").is_some());
        let served = served.count();
        over.store(true, Ordering::Relaxed);
        (served, flood.join().unwrap())
    });
    let answered = drops(&hosts, "answered");
    println!("{served} of 60 served; {sent} queries, {answered} answers");
    assert!(served >= 57, "{served}");
    assert!(answered > sent / 2, "{answered} of {sent}");
}

/// Sends queries with made-up sources until it is over: at most 50,000 per second. Returns their number.
fn flood(hosts: &Hosts, over: &AtomicBool) -> u64 {
    let wire = Raw::to_send(&hosts.client);
    let mut frame = Client::new(hosts, 0).frame(QUERIES, INFORMATION);
    // UDP may have no checksum.
    frame[40..42].fill(0);
    let mut sent = 0;
    while !over.load(Ordering::Relaxed) {
        let spread = (sent as u32).wrapping_mul(0x9e37_79b1) & 0x00ff_ffff;
        frame[26..30].copy_from_slice(&((16 << 24) + spread).to_be_bytes());
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        wire.send(&frame);
        sent += 1;
        if sent % 100 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    sent
}
