//! In the network stack (tc), the same limits hold: exactly, in both directions, for packets without Ethernet headers, and
//! for packets that offload has merged.

mod auto;
mod merged;
mod wireguard;

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::{Command, Stdio},
    time::Duration,
};

use limiter_common::abi::CLOCK_KERNEL;
use limiter_config::Direction;
use limiter_kernel::sys::{bpf, link::Link};
use limiter_tests::{
    command::{ip, prepared},
    engine::{Kernel, constants},
    eventually,
    hosts::{CLIENT, Hosts, SERVER, on},
    need, need_kernel, number,
    processes::packets_are_delivered,
    raw::Raw,
    settings,
    testbed::Host,
    traffic::{Traffic, udp},
    tun::Tun,
};

const SILENCE: Duration = Duration::from_millis(200);
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

/// Returns from a test on a kernel without tcx, where attaching is an error that says so.
macro_rules! need_tcx {
    () => {
        need_kernel!();
        if !need::tcx() {
            for line in ["attach eth0 --hook tc --rate 5", "attach eth0:out --rate 5"] {
                let refused = Hosts::new().limiter(line);
                refused.expect_error(1, &["Linux 6.6"]);
            }
            return;
        }
    };
}
use need_tcx;

#[test]
fn incoming_packets_are_limited_exactly_through_changes_and_trials() {
    need_tcx!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --hook tc --rate 1/h --burst 5");
    assert_eq!(hosts.status()["mode"], "tc");
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("192.0.2.2", 20), 5);
    assert_eq!(traffic.passed("192.0.2.9", 20), 5);
    hosts.run("set eth0 --burst 7");
    assert_eq!(
        traffic.passed("192.0.2.2", 20),
        2,
        "what was spent stays spent"
    );
    // A limit for one port needs the full path.
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "mode = \"tc\"\n[[limit]]\nname = \"default\"\nrate = \"1/h\"\nburst = 7\n[[limit]]\nname = \"dns\"\nrate = \"1/h\"\nburst = 3\nmatch = { destination_port = 53 }\n";
    fs::write(file.path(), text).unwrap();
    hosts.run(&format!(
        "attach eth0 --or-reload --config {}",
        file.path().display()
    ));
    assert_eq!(traffic.passed_to(53, "192.0.2.77", 20), 3);
    assert_eq!(traffic.passed_to(54, "192.0.2.77", 20), 4);
    hosts.run("set eth0 --limit dns --burst 9 --try 5s");
    assert_eq!(
        traffic.passed_to(53, "192.0.2.78", 20),
        7,
        "as many as both limits admit"
    );
    eventually("the trial is over", || {
        !hosts.status()["trial_ended"].is_null()
    });
    assert_eq!(
        traffic.passed_to(53, "192.0.2.79", 20),
        3,
        "the trial is over"
    );
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists());
    let (from, receiver) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
    (0..20).for_each(|_| from.send(&udp(&hosts, CLIENT, 9)));
    assert_eq!(receiver.receive(SILENCE).len(), 20);
}

/// Sends `count` packets from the server to `to`. Returns how many arrive at the client.
fn sent(hosts: &Hosts, destination: IpAddr, count: usize) -> usize {
    let wire = Raw::open(&hosts.client);
    on(&hosts.server, || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for _ in 0..count {
            // The kernel may report a drop as an error.
            let _ = socket.send_to(b"twelve bytes", SocketAddr::new(destination, 9));
        }
    });
    let arrived = wire.receive(SILENCE);
    arrived
        .iter()
        .filter(|frame| frame[30..34] == octets(destination))
        .count()
}

/// The client's hardware address.
fn mac(hosts: &Hosts) -> String {
    hosts.client.mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => unreachable!("the hosts have IPv4 only"),
    }
}

#[test]
fn outgoing_packets_are_limited_by_destination() {
    need_tcx!();
    let hosts = Hosts::new();
    let neighbour = format!("neigh replace {STRANGER} lladdr {} dev eth0", mac(&hosts));
    ip(&hosts.server.namespace, &neighbour);
    // Both directions at once.
    hosts.run("attach eth0 --rate 1/h --burst 2");
    hosts.run("attach eth0 --direction out --rate 1/h --burst 5 --deny 198.51.100.0/24");
    assert_eq!(sent(&hosts, CLIENT, 20), 5);
    assert_eq!(
        sent(&hosts, STRANGER, 20),
        5,
        "another destination has its own bucket"
    );
    assert_eq!(Traffic::new(&hosts).passed("192.0.2.9", 20), 2);
    let check = hosts.run(&format!("check eth0:out {CLIENT}"));
    assert!(
        check.contains(&format!("-> {CLIENT}: 0.0 of 5 tokens")),
        "{check}"
    );
    hosts.run(&format!("reset eth0:out {CLIENT}"));
    assert_eq!(sent(&hosts, CLIENT, 20), 5);
    // Lists name destinations.
    hosts.run(&format!("allow add eth0:out {STRANGER}"));
    assert_eq!(sent(&hosts, STRANGER, 20), 20);
    hosts.run(&format!("deny add eth0:out {CLIENT}"));
    assert_eq!(sent(&hosts, CLIENT, 3), 0);
    let text = hosts.run("status");
    for line in ["eth0: ", "eth0:out: tc mode"] {
        assert!(text.contains(line), "{text}");
    }
    hosts.run("detach all");
    assert_eq!(sent(&hosts, CLIENT, 20), 20);
}

/// The server's own address is on a list: a limit on what it sends, or on what others behind it send.
#[test]
fn outgoing_limit_on_a_list_of_sources_holds_that_source() {
    need_tcx!();
    for (fields, passed) in [
        ("source = \"own\"", 3),
        ("source = \"others\"", 20),
        ("unless = \"own\"", 20),
        ("unless = \"others\"", 3),
        ("not = { source = \"own\" }", 20),
        ("source = \"own\", destination = \"others\"", 3),
    ] {
        let hosts = Hosts::new();
        hosts.attach_file(&format!(
            "interfaces = \"eth0\"\ndirection = \"out\"\n[lists]\nown = [\"{SERVER}\"]\nothers = [\"{CLIENT}\"]\n\
             [[limit]]\nname = \"sent\"\nkey = \"source\"\nmatch = {{ {fields} }}\nrate = \"1/h\"\nburst = 3\n"
        ));
        assert_eq!(sent(&hosts, CLIENT, 20), passed, "{fields}");
    }
}

#[test]
fn outgoing_packets_of_established_connections_are_exempt() {
    need_tcx!();
    let hosts = Hosts::new();
    for host in [&hosts.server, &hosts.client] {
        ip(&host.namespace, "link set lo up");
    }
    hosts.run("attach eth0:out --rate 1/h --burst 3 --exempt established");
    let listener = on(&hosts.client, || {
        TcpListener::bind((CLIENT, 7_000)).unwrap()
    });
    let mut stream = on(&hosts.server, || {
        TcpStream::connect((CLIENT, 7_000)).unwrap()
    });
    let (mut peer, _) = listener.accept().unwrap();
    // A refused byte would never arrive: TCP sends it again, and is refused again.
    peer.set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut byte = [0];
    for _ in 0..20 {
        // Each byte is a packet, because the peer has read it before the next one is sent.
        stream.write_all(b"x").unwrap();
        peer.read_exact(&mut byte).unwrap();
    }
    let established =
        &hosts.json("status eth0:out --json")["interfaces"][0]["passes"]["established"];
    assert!(number(&established["packets"]) >= 20, "{established}");
    assert_eq!(sent(&hosts, CLIENT, 20), 2, "the SYN was charged");
}

#[test]
fn confined_readers_find_the_attachment() {
    need_tcx!();
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = \"eth0\"\ndirection = \"out\"\n[[limit]]\nname = \"all\"\nrate = \"10/s\"\nadaptive = { when = { softnet_drops = \"100/s\" } }\n",
    );
    // It gives up the capabilities that it does not need.
    let mut adapt = on(&hosts.server, || {
        prepared("adapt eth0:out").stderr(Stdio::piped()).spawn()
    })
    .unwrap();
    eventually("it has begun", || {
        hosts.json("status eth0:out --json")["interfaces"][0]["limits"][0]["adapted"] == true
    });
    assert!(adapt.try_wait().unwrap().is_none());
    adapt.kill().unwrap();
    adapt.wait().unwrap();
}

#[test]
fn name_and_direction_must_agree() {
    need_tcx!();
    let hosts = Hosts::new();
    let refused = |line: &str, words: &[&str]| hosts.limiter(line).expect_error(2, words);
    refused(
        "attach eth0:out --direction in --rate 5",
        &["'eth0:out'", "one direction"],
    );
    refused(
        "attach eth0:out eth0 --rate 5",
        &["'eth0:out'", "one direction"],
    );
    hosts.run("attach eth0:out --rate 5");
    hosts.run("detach eth0:out");
    hosts
        .limiter("attach eth0:out --mode native --rate 5")
        .expect_error(1, &["mode native", "sends", "--hook tc"]);
    refused("attach eth0:out --chain --rate 5", &["--chain", "outgoing"]);
    for line in ["attach eth0:out --key source", "attach eth0 --mode tc"] {
        hosts
            .limiter(&format!("{line} --rate 5 --proof syn-cookie"))
            .expect_error(1, &["proof", "only XDP", "leave proof out"]);
    }
}

#[test]
fn packets_without_ethernet_headers_are_limited_in_both_directions() {
    need_tcx!();
    let hosts = Hosts::new();
    let Ok(tun) = Tun::new(&hosts.server, "tun0") else {
        eprintln!("this kernel has no tun");
        return;
    };
    for line in ["addr add 203.0.113.1/24 dev tun0", "link set tun0 up"] {
        ip(&hosts.server.namespace, line);
    }
    hosts.run("attach tun0 --rate 1/h --burst 4");
    hosts.run("attach tun0:out --rate 1/h --burst 3");
    let server = SocketAddr::from(([203, 0, 113, 1], 9));
    let received = on(&hosts.server, || {
        let socket = UdpSocket::bind(server).unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        for source in [[203, 0, 113, 7], [203, 0, 113, 8]] {
            let mut packet = Vec::new();
            etherparse::PacketBuilder::ipv4(source, [203, 0, 113, 1], 64)
                .udp(40_000, 9)
                .write(&mut packet, b"hello")
                .unwrap();
            (0..10).for_each(|_| tun.arrive(&packet));
        }
        packets_are_delivered();
        let mut buffer = [0; 64];
        std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
    });
    assert_eq!(received, 8, "four of each source");
    let _ = tun.sent(SILENCE);
    on(&hosts.server, || {
        let socket = UdpSocket::bind("203.0.113.1:0").unwrap();
        for _ in 0..10 {
            let _ = socket.send_to(b"hello", "203.0.113.9:9");
        }
    });
    let is_addressed = |packet: &Vec<u8>| packet[16..20] == [203, 0, 113, 9];
    assert_eq!(
        tun.sent(SILENCE)
            .iter()
            .filter(|packet| is_addressed(packet))
            .count(),
        3
    );
}

#[test]
fn program_runs_at_its_place_among_others() {
    need_tcx!();
    let hosts = Hosts::new();
    let (config, _) = constants(
        &settings("mode = \"tc\"\n[[limit]]\nname = \"all\"\nrate = \"1M/s\"\n"),
        CLOCK_KERNEL,
    );
    let limit = limiter_tests::engine::Limit::new("1/s", "1");
    let foreign = Kernel::load(&limit, &config, false);
    let program = foreign.program.fd().unwrap();
    let index = hosts.server.index;
    let (_link, id) = on(&hosts.server, || {
        let link = Link::create_tc(program, index, Direction::In, None).unwrap();
        (link, bpf::programs(index, bpf::BPF_TCX_INGRESS).unwrap()[0])
    });
    let order = || {
        on(&hosts.server, || {
            bpf::programs(index, bpf::BPF_TCX_INGRESS).unwrap()
        })
    };
    for (line, place) in [
        ("attach eth0 --hook tc --rate 5".to_owned(), 0),
        (format!("attach eth0 --after {id} --rate 5"), 1),
        (format!("attach eth0 --before {id} --rate 5"), 0),
    ] {
        hosts.run(&line);
        assert_eq!(
            number(&hosts.status()["program_id"]),
            u64::from(order()[place]),
            "{line}"
        );
        assert_eq!(order().len(), 2);
        hosts.run("set eth0 --rate 6");
        assert_eq!(
            number(&hosts.status()["program_id"]),
            u64::from(order()[place]),
            "{line}"
        );
        hosts.run("detach eth0");
        assert_eq!(order(), [id], "{line}");
    }
    hosts
        .limiter("attach eth0 --after 4000000000 --rate 5")
        .expect_error(1, &["no program with this id"]);
    assert!(!hosts.pins().exists());
}

/// Runs a command on a host with this input. Returns its output, or none if it failed.
fn tool(host: &Host, line: &str, input: &str) -> Option<String> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next()?);
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    on(host, || {
        let mut child = command.spawn().ok()?;
        child.stdin.take()?.write_all(input.as_bytes()).ok()?;
        let output = child.wait_with_output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    })
}
