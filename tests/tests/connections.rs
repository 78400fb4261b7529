//! A limit with `connections` holds each source to as many open connections, by the host's own sockets.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use limiter_tests::{
    command::{ip, prepared},
    eventually,
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER, SERVER_IPV6, on},
    need_kernel, number,
    packet::{Ends, Segment},
    processes::children_of,
    raw::Raw,
    steps::{End, kill_at_each_step, run_meanwhile},
    testbed::{Address, Host},
};
use nix::{
    sys::{
        signal::{Signal, kill},
        socket::{
            self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt,
            sockopt::{Linger, ReusePort, SendTimeout},
        },
        time::{TimeVal, TimeValLike},
    },
    unistd::Pid,
};

const PORT: u16 = 80;
/// Another address of the client.
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3));
/// The time after which a request counts as dropped: before it is sent again.
const PATIENCE: TimeVal = TimeVal::new(0, 700_000);

/// A server that accepts connections, and sends back what it gets.
struct Echo {
    done: &'static AtomicBool,
    thread: Option<thread::JoinHandle<()>>,
}

impl Echo {
    fn start(host: &Host, address: IpAddr, port: u16) -> Self {
        let listener = on(host, || TcpListener::bind((address, port))).unwrap();
        listener.set_nonblocking(true).unwrap();
        let done: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let serve = move || {
            let mut open: Vec<TcpStream> = Vec::new();
            while !done.load(Ordering::Relaxed) {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).unwrap();
                    open.push(stream);
                }
                open.retain_mut(|stream| {
                    let mut bytes = [0; 64];
                    match stream.read(&mut bytes) {
                        Ok(0) => false,
                        Ok(count) => stream.write_all(&bytes[..count]).is_ok(),
                        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                    }
                });
                thread::sleep(Duration::from_millis(1));
            }
        };
        Self {
            done,
            thread: Some(thread::spawn(serve)),
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Connects from an address of the host; `None` if the request is dropped.
fn connect(host: &Host, from: IpAddr, server: SocketAddr) -> Option<TcpStream> {
    on(host, || {
        let family = match from {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
        let socket = socket::socket(family, kind, flags, None).unwrap();
        let own = SockaddrStorage::from(SocketAddr::new(from, 0));
        socket::bind(socket.as_raw_fd(), &own).unwrap();
        setsockopt(&socket, SendTimeout, &PATIENCE).unwrap();
        let connected = socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(server));
        setsockopt(&socket, SendTimeout, &TimeVal::seconds(5)).unwrap();
        connected.is_ok().then(|| TcpStream::from(socket))
    })
}

/// Connects from an address that the limit lets in. On a busy machine, a request may need another try.
fn connected(host: &Host, from: IpAddr, server: SocketAddr) -> TcpStream {
    let mut tries = (0..5).filter_map(|_| connect(host, from, server));
    tries.next().expect("the server is reached")
}

/// Returns true if the server answers on this connection.
fn answers(stream: &mut TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut byte = [0];
    stream.write_all(b"x").is_ok() && stream.read_exact(&mut byte).is_ok()
}

/// The open connections of `source` by the program's own count.
fn counted(hosts: &Hosts, source: IpAddr) -> u64 {
    let check = hosts.json(&format!("check eth0 {source} --json"));
    number(&check["limits"][0]["connections"]["open"])
}

fn await_count(hosts: &Hosts, source: IpAddr, open: u64) {
    eventually(&format!("{open} connections"), || {
        counted(hosts, source) == open
    });
}

/// The open connections of all sources by the host's sockets.
fn in_sockets(hosts: &Hosts) -> u64 {
    let listed = hosts.json("connections eth0 --json");
    let keys = listed["limits"][0]["keys"].as_array().unwrap();
    keys.iter().map(|key| number(&key["open"])).sum()
}

fn two_clients() -> Hosts {
    Hosts::with(
        &[Address(SERVER, 24)],
        &[Address(CLIENT, 24), Address(OTHER, 24)],
    )
}

/// The pins of the attachment that count connections.
fn pins(hosts: &Hosts) -> Vec<String> {
    let folder = hosts.pins();
    let Ok(folders) = fs::read_dir(&folder) else {
        return Vec::new();
    };
    let generations = folders.flatten().filter(|entry| entry.path().is_dir());
    let names = generations.flat_map(|entry| fs::read_dir(entry.path()).unwrap().flatten());
    let names = names.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<_> = names
        .filter(|name| name == "OPEN" || name == "counter")
        .collect();
    names.sort();
    names
}

#[test]
fn source_has_as_many_open_connections_as_its_limit_allows() {
    need_kernel!();
    for mode in ["native", "generic", "tc"] {
        let hosts = two_clients();
        let _echo = Echo::start(&hosts.server, SERVER, PORT);
        let server = SocketAddr::new(SERVER, PORT);
        hosts.run(&format!(
            "attach eth0 --connections 3 --port {PORT} --mode {mode}"
        ));
        let mut open: Vec<_> = (0..3)
            .map(|_| connected(&hosts.client, CLIENT, server))
            .collect();
        assert!(connect(&hosts.client, CLIENT, server).is_none(), "{mode}");
        assert!(open.iter_mut().all(answers), "{mode}: open ones pass");
        let mut other = connected(&hosts.client, OTHER, server);
        assert!(answers(&mut other), "{mode}: another source");
        let status = hosts.status();
        let connections = &status["limits"][0]["connections"];
        assert_eq!(number(&connections["open"]), 4, "{mode}: {status}");
        assert_eq!(number(&connections["keys_at_bound"]), 1, "{mode}");
        assert!(number(&status["drops"]["connections"]["packets"]) > 0);
        drop(open.pop());
        await_count(&hosts, CLIENT, 2);
        let again = connect(&hosts.client, CLIENT, server);
        assert!(again.is_some(), "{mode}: a closed one leaves its place");
    }
}

/// IPv6 counts by /64, IPv4 peers of a socket for both families as IPv4.
#[test]
fn both_families_and_sockets_for_both_are_counted() {
    need_kernel!();
    let hosts = Hosts::of_both_families();
    let _echo = Echo::start(&hosts.server, "::".parse().unwrap(), PORT);
    hosts.run(&format!("attach eth0 --connections 2 --port {PORT}"));
    for (from, server) in [(CLIENT, SERVER), (CLIENT_IPV6, SERVER_IPV6)] {
        let server = SocketAddr::new(server, PORT);
        let _open: Vec<_> = (0..2)
            .map(|_| connected(&hosts.client, from, server))
            .collect();
        assert!(connect(&hosts.client, from, server).is_none(), "{from}");
        await_count(&hosts, from, 2);
    }
}

#[test]
fn connections_that_are_open_before_attach_and_change_count() {
    need_kernel!();
    let hosts = two_clients();
    let _echo = Echo::start(&hosts.server, SERVER, PORT);
    let server = SocketAddr::new(SERVER, PORT);
    let mut open: Vec<_> = (0..4)
        .map(|_| connected(&hosts.client, CLIENT, server))
        .collect();
    hosts.run(&format!("attach eth0 --connections 3 --port {PORT}"));
    assert_eq!(counted(&hosts, CLIENT), 4);
    assert!(connect(&hosts.client, CLIENT, server).is_none());
    assert!(open.iter_mut().all(answers));
    hosts.run("limit eth0 open --connections 5");
    assert_eq!(counted(&hosts, CLIENT), 4);
    open.extend(connect(&hosts.client, CLIENT, server));
    assert_eq!(open.len(), 5);
    assert!(connect(&hosts.client, CLIENT, server).is_none());
    drop(open);
    await_count(&hosts, CLIENT, 0);
}

#[test]
fn only_limits_with_connections_pin_a_counter_and_detach_removes_it() {
    need_kernel!();
    let hosts = two_clients();
    hosts.run("attach eth0 --rate 5k");
    assert!(pins(&hosts).is_empty());
    hosts.run(&format!(
        "limit eth0 open --rate 1k/s --connections 3 --port {PORT}"
    ));
    assert_eq!(pins(&hosts), ["OPEN", "counter"]);
    hosts.run("limit eth0 open --connections 0");
    assert!(pins(&hosts).is_empty());
    hosts.run("limit eth0 open --connections 3");
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists());
}

/// Two sockets of other namespaces, and those that the host opens itself, have the same peer.
#[test]
fn connections_of_other_namespaces_and_to_other_hosts_do_not_count() {
    need_kernel!();
    let hosts = two_clients();
    let _echo = Echo::start(&hosts.server, SERVER, PORT);
    let _elsewhere = Echo::start(&hosts.client, CLIENT, PORT);
    hosts.run("attach eth0 --connections 2");
    ip(&hosts.client.namespace, "link set lo up");
    let near = SocketAddr::new(CLIENT, PORT);
    let _near: Vec<_> = (0..3)
        .map(|_| connected(&hosts.client, CLIENT, near))
        .collect();
    let mut outward: Vec<_> = (0..3)
        .map(|_| connected(&hosts.server, SERVER, near))
        .collect();
    let server = SocketAddr::new(SERVER, PORT);
    let open: Vec<_> = (0..2)
        .map(|_| connected(&hosts.client, CLIENT, server))
        .collect();
    await_count(&hosts, CLIENT, 2);
    assert!(connect(&hosts.client, CLIENT, server).is_none());
    assert!(
        outward.iter_mut().all(answers),
        "the host's own connections pass"
    );
    outward.extend(connect(&hosts.server, SERVER, near));
    assert_eq!(outward.len(), 4, "the host still connects to the source");
    drop(outward);
    await_count(&hosts, CLIENT, 2);
    drop(open);
    await_count(&hosts, CLIENT, 0);
}

#[test]
fn made_up_requests_use_up_no_connection() {
    need_kernel!();
    let hosts = two_clients();
    let _echo = Echo::start(&hosts.server, SERVER, PORT);
    hosts.run(&format!("attach eth0 --connections 3 --port {PORT}"));
    let raw = Raw::to_send(&hosts.client);
    let ends = |from, number| Ends {
        macs: (hosts.client.mac, hosts.server.mac),
        from: SocketAddr::new(from, 20_000 + number),
        to: SocketAddr::new(SERVER, PORT),
    };
    for number in 0..200_u16 {
        let unknown = IpAddr::from([10, 0, 1, number.to_be_bytes()[1]]);
        for from in [CLIENT, unknown] {
            raw.send(&ends(from, number).tcp(Segment::Syn));
        }
    }
    let server = SocketAddr::new(SERVER, PORT);
    let open: Vec<_> = (0..3)
        .filter_map(|_| connect(&hosts.client, CLIENT, server))
        .collect();
    assert_eq!(open.len(), 3);
    let status = hosts.status();
    assert_eq!(number(&status["limits"][0]["connections"]["keys"]), 1);
}

/// A client that answers no SYN+ACK by itself.
const SILENT: [u8; 4] = [192, 0, 2, 50];

/// A frame of the silent client: a SYN, or the ACK that completes a handshake.
fn of_silent(hosts: &Hosts, from: u16, ack: Option<u32>) -> Vec<u8> {
    let IpAddr::V4(server) = SERVER else {
        unreachable!();
    };
    let ether = PacketBuilder::ethernet2(hosts.client.mac, hosts.server.mac);
    let ip = ether.ipv4(SILENT, server.octets(), 20);
    let tcp = match ack {
        None => ip.tcp(from, PORT, 1, 1_000).syn(),
        Some(number) => ip.tcp(from, PORT, 2, 1_000).ack(number.wrapping_add(1)),
    };
    let mut frame = Vec::new();
    tcp.write(&mut frame, &[]).unwrap();
    frame
}

/// All requests pass before the first handshake is complete. So the segments that complete handshakes must be held.
#[test]
fn handshakes_that_complete_together_stay_within_the_bound() {
    need_kernel!();
    const MOST: u64 = 5;
    const REQUESTS: u16 = 100;
    for mode in ["native", "tc"] {
        let hosts = two_clients();
        let _echo = Echo::start(&hosts.server, SERVER, PORT);
        let source = IpAddr::from(SILENT);
        let mac = hosts.client.mac.map(|byte| format!("{byte:02x}")).join(":");
        let line = format!("neigh add {source} lladdr {mac} dev eth0");
        ip(&hosts.server.namespace, &line);
        hosts.run(&format!(
            "attach eth0 --connections {MOST} --port {PORT} --mode {mode}"
        ));
        let wire = Raw::open(&hosts.client);
        let mut answers = BTreeMap::new();
        for from in 5_000..5_000 + REQUESTS {
            wire.send(&of_silent(&hosts, from, None));
        }
        eventually("answers to all requests", || {
            for frame in wire.receive(Duration::from_millis(100)) {
                let packet = SlicedPacket::from_ethernet(&frame).unwrap();
                if let Some(TransportSlice::Tcp(tcp)) = packet.transport
                    && tcp.syn()
                    && tcp.ack()
                {
                    answers.insert(tcp.destination_port(), tcp.sequence_number());
                }
            }
            answers.len() == usize::from(REQUESTS)
        });
        assert_eq!(counted(&hosts, source), 0, "{mode}: half open");
        for (from, number) in &answers {
            wire.send(&of_silent(&hosts, *from, Some(*number)));
        }
        await_drops(&hosts, u64::from(REQUESTS) - MOST - most_in_flight());
        let held = in_sockets(&hosts);
        println!("{mode}: {held} connections open, {MOST} allowed");
        let most = MOST + most_in_flight();
        assert!((MOST..=most).contains(&held), "{mode}: {held}");
        assert_eq!(counted(&hosts, source), held);
    }
}

fn await_drops(hosts: &Hosts, least: u64) {
    eventually(&format!("{least} dropped segments"), || {
        let status = hosts.status();
        number(&status["drops"]["connections"]["packets"]) >= least
    });
}

/// Segments on the way from the program to the socket, of which the program knows nothing: those of one poll of each CPU.
fn most_in_flight() -> u64 {
    const OF_A_POLL: u64 = 16;
    OF_A_POLL * thread::available_parallelism().unwrap().get() as u64
}

#[test]
fn connections_that_come_and_go_from_two_threads_leave_no_error() {
    need_kernel!();
    let hosts = two_clients();
    let _echo = Echo::start(&hosts.server, SERVER, PORT);
    hosts.run(&format!("attach eth0 --connections 1000 --port {PORT}"));
    let server = SocketAddr::new(SERVER, PORT);
    let until = Instant::now() + Duration::from_secs(3);
    let opened: u64 = on(&hosts.client, || {
        thread::scope(|scope| {
            let churn = || {
                let mut opened = 0;
                while Instant::now() < until {
                    if let Ok(stream) = TcpStream::connect(server) {
                        // A reset, so that no local port is used up.
                        let now = libc::linger {
                            l_onoff: 1,
                            l_linger: 0,
                        };
                        setsockopt(&stream, Linger, &now).unwrap();
                        opened += 1;
                    }
                }
                opened
            };
            let threads = [scope.spawn(churn), scope.spawn(churn)];
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        })
    });
    println!("{opened} connections");
    assert!(opened > 100);
    let _left: Vec<_> = (0..7)
        .map(|_| connected(&hosts.client, CLIENT, server))
        .collect();
    // `check` reads the program's count. `connections` would correct it.
    await_count(&hosts, CLIENT, 7);
    assert_eq!(in_sockets(&hosts), 7);
}

/// Runs a command on a host.
trait SpawnIn {
    fn spawn_in(&mut self, host: &Host) -> Child;
}

impl SpawnIn for Command {
    fn spawn_in(&mut self, host: &Host) -> Child {
        on(host, || self.spawn()).unwrap()
    }
}

/// Requests that never end (slowloris) hold no more than the bound, and a killed server leaves nothing counted.
#[test]
fn slow_requests_to_a_web_server_are_bounded_and_its_death_frees_them() {
    need_kernel!();
    let hosts = two_clients();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "hello").unwrap();
    let mut web = Command::new("timeout")
        .args(["-s", "KILL", "120", "python3", "-m", "http.server", "80"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn_in(&hosts.server);
    let server = SocketAddr::new(SERVER, PORT);
    eventually("the server answers", || {
        connect(&hosts.client, OTHER, server).is_some()
    });
    hosts.run(&format!("attach eth0 --connections 4 --port {PORT}"));
    let mut slow: Vec<_> = (0..8)
        .filter_map(|_| connect(&hosts.client, CLIENT, server))
        .collect();
    assert_eq!(slow.len(), 4);
    for stream in &mut slow {
        stream.write_all(b"GET / HTTP/1.0\r\nX: ").unwrap();
    }
    let mut quick = connected(&hosts.client, OTHER, server);
    quick
        .write_all(b"GET /index.html HTTP/1.0\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    quick.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("hello"), "{text}");
    await_count(&hosts, CLIENT, 4);
    let guard = Pid::from_raw(web.id().try_into().unwrap());
    for server in children_of(guard) {
        kill(server, Signal::SIGKILL).unwrap();
    }
    web.wait().unwrap();
    await_count(&hosts, CLIENT, 0);
}

/// Connections that nobody accepts, and those that the server has closed.
#[test]
fn queue_of_a_listener_counts_and_time_wait_does_not() {
    need_kernel!();
    let hosts = two_clients();
    let listener = on(&hosts.server, || TcpListener::bind((SERVER, PORT))).unwrap();
    hosts.run(&format!("attach eth0 --connections 3 --port {PORT}"));
    let server = SocketAddr::new(SERVER, PORT);
    let open: Vec<_> = (0..4)
        .filter_map(|_| connect(&hosts.client, CLIENT, server))
        .collect();
    assert_eq!(open.len(), 3, "nobody has accepted");
    // The server closes first, so that its side waits.
    for _ in 0..3 {
        drop(listener.accept().unwrap());
    }
    await_count(&hosts, CLIENT, 0);
    drop(open);
    let again = connect(&hosts.client, CLIENT, server);
    assert!(again.is_some());
}

/// The kernel spreads requests over the listeners of a port (`SO_REUSEPORT`).
#[test]
fn listeners_that_share_a_port_share_the_bound() {
    need_kernel!();
    let hosts = two_clients();
    let listeners = on(&hosts.server, || {
        [(); 4].map(|()| {
            let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
            let socket = socket::socket(AddressFamily::Inet, kind, flags, None).unwrap();
            setsockopt(&socket, ReusePort, &true).unwrap();
            let own = SockaddrStorage::from(SocketAddr::new(SERVER, PORT));
            socket::bind(socket.as_raw_fd(), &own).unwrap();
            socket::listen(&socket, socket::Backlog::MAXCONN).unwrap();
            socket
        })
    });
    hosts.run(&format!("attach eth0 --connections 3 --port {PORT}"));
    let server = SocketAddr::new(SERVER, PORT);
    let open: Vec<_> = (0..5)
        .filter_map(|_| connect(&hosts.client, CLIENT, server))
        .collect();
    assert_eq!(open.len(), 3);
    // The queue of a listener ends with it.
    drop(listeners);
    await_count(&hosts, CLIENT, 0);
}

/// Readers take no lock: the generation that they read may be gone at any of their steps.
#[test]
fn status_reads_a_whole_generation_while_it_changes() {
    need_kernel!();
    let hosts = two_clients();
    hosts.run("attach eth0 --connections 3");
    let change = || {
        hosts.run("limit eth0 open --connections 4");
        hosts.run("limit eth0 open --connections 3");
    };
    for look in (0..200).step_by(2) {
        let status = &mut prepared(&["status", "eth0"]);
        let run = || run_meanwhile(status, look, change);
        let (stopped, was_there) = hosts.server.namespace.run(run).unwrap().unwrap();
        assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
        if !was_there {
            assert!(look > 10, "{look}");
            return;
        }
    }
    panic!("too many reads");
}

#[test]
fn killed_change_leaves_the_old_bound_or_the_new_one() {
    need_kernel!();
    let hosts = two_clients();
    let _echo = Echo::start(&hosts.server, SERVER, PORT);
    hosts.run("attach eth0 --connections 3");
    let mut open = connected(&hosts.client, CLIENT, SocketAddr::new(SERVER, PORT));
    let bound = || number(&hosts.status()["limits"][0]["connections"]["most"]);
    kill_at_each_step(
        &hosts,
        &["limit", "eth0", "open", "--connections", "4"],
        || {
            hosts.run("limit eth0 open --connections 3");
            assert_eq!(pins(&hosts), ["OPEN", "counter"]);
        },
        |_, situation| {
            assert!([3, 4].contains(&bound()), "{situation}");
            assert_eq!(counted(&hosts, CLIENT), 1, "{situation}");
        },
    );
    assert_eq!(bound(), 4);
    assert!(answers(&mut open));
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists());
}
