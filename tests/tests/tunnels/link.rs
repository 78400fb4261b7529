//! Two hosts with a tunnel between them.

use std::{
    fs,
    io::Write,
    net::{IpAddr, SocketAddr, UdpSocket},
    process::{Command, Stdio},
    time::Duration,
};

use limiter_tests::{
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER, SERVER_IPV6, on},
    number,
    testbed::Host,
};

use super::{
    kinds::{Ends, Kind, TUN},
    process::Process,
};

/// The tunnel's interface on both hosts.
pub const TUNNEL: &str = "t0";
/// The port that packets go to, and the one that they come from.
pub const PORT: u16 = 9;
pub const FROM: u16 = 40_000;
/// Bytes of a packet's payload. Each byte is the packet's number.
pub const PAYLOAD: usize = 64;

/// Two hosts with a tunnel of a kind between them.
pub struct Link {
    pub hosts: Hosts,
    _process: Option<Process>,
}

/// An address in the tunnel: of the server or of the client.
pub fn inside(version: u8, is_server: bool) -> IpAddr {
    let number = if is_server { 1 } else { 2 };
    match version {
        4 => IpAddr::from([10, 9, 0, number]),
        _ => IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, number.into()]),
    }
}

impl Link {
    /// None if this kernel lacks the kind.
    pub fn new(kind: &Kind) -> Option<Self> {
        let hosts = Hosts::of_both_families();
        let [server, client] = [[SERVER, SERVER_IPV6], [CLIENT, CLIENT_IPV6]]
            .map(|addresses| addresses.map(|address| &*address.to_string().leak()));
        let ends = [
            (&hosts.server, server, client, [1, 2]),
            (&hosts.client, client, server, [2, 1]),
        ];
        let process = match kind.name == TUN.name {
            true => Some(Process::start(&hosts)?),
            false => None,
        };
        for (host, own, peer, numbers) in ends {
            let lines = (kind.made_by)(&Ends { own, peer, numbers });
            for (index, line) in lines.iter().enumerate() {
                if let Err(why) = run(host, line) {
                    // The kernel has the kind if the first command succeeds.
                    assert!(index == 0 && own == server, "{line}: {why}");
                    return None;
                }
            }
            prepare(host, numbers[0] == 1);
        }
        Some(Self {
            hosts,
            _process: process,
        })
    }

    /// Sends numbered packets through the tunnel, to the server or to the client. `wait` waits until all were seen.
    /// Returns the numbers of those that arrive.
    pub fn send(&self, version: u8, to_server: bool, count: u8, wait: impl FnOnce()) -> Vec<u8> {
        let Hosts { server, client } = &self.hosts;
        let (from, target) = if to_server {
            (client, server)
        } else {
            (server, client)
        };
        let bind = |host: &Host, is_server, port| {
            let address = SocketAddr::new(inside(version, is_server), port);
            on(host, || UdpSocket::bind(address)).unwrap()
        };
        let receiver = bind(target, to_server, PORT);
        let sender = bind(from, !to_server, FROM);
        let place = SocketAddr::new(inside(version, to_server), PORT);
        for number in 0..count {
            // The kernel may report a drop as an error.
            let _ = sender.send_to(&[number; PAYLOAD], place);
        }
        wait();
        receiver
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let mut numbers = Vec::new();
        let mut payload = [0; 2 * PAYLOAD];
        while let Ok(length) = receiver.recv(&mut payload) {
            assert_eq!(payload[..length], [payload[0]; PAYLOAD]);
            numbers.push(payload[0]);
        }
        numbers
    }

    /// The packets and bytes that the kernel has received on the server's tunnel.
    pub fn received(&self) -> [u64; 2] {
        let line = format!("ip -json -statistics link show dev {TUNNEL}");
        let said = run(&self.hosts.server, &line).unwrap();
        let links: serde_json::Value = serde_json::from_str(&said).unwrap();
        ["packets", "bytes"].map(|unit| number(&links[0]["stats64"]["rx"][unit]))
    }
}

/// Runs a command on a host. Returns its output, or its complaint if it fails.
pub fn run(host: &Host, line: &str) -> Result<String, String> {
    let (line, input) = line.split_once(" < ").unwrap_or((line, ""));
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    on(host, || {
        let mut child = command.spawn().map_err(|why| why.to_string())?;
        let mut stdin = child.stdin.take().unwrap();
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().map_err(|why| why.to_string())?;
        let [said, complaint] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        if output.status.success() {
            Ok(said)
        } else {
            Err(complaint)
        }
    })
}

/// Gives the tunnel its addresses. The kernel sends nothing on its own there.
fn prepare(host: &Host, is_server: bool) {
    on(host, || {
        for (name, value) in [
            ("addr_gen_mode", "1"),
            ("router_solicitations", "0"),
            ("accept_dad", "0"),
        ] {
            let path = format!("/proc/sys/net/ipv6/conf/{TUNNEL}/{name}");
            fs::write(&path, value).unwrap_or_else(|why| panic!("{path}: {why}"));
        }
    });
    let [v4, v6] = [4, 6].map(|version| inside(version, is_server));
    for line in [
        format!("ip address add {v4}/24 dev {TUNNEL}"),
        format!("ip address add {v6}/64 dev {TUNNEL} nodad"),
        format!("ip link set {TUNNEL} up"),
    ] {
        run(host, &line).unwrap_or_else(|why| panic!("{line}: {why}"));
    }
}
