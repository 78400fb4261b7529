//! Builds the namespaces of a fleet, and the links between them.

use std::{
    fs::{self, File},
    io::Write,
    net::{IpAddr, Ipv4Addr},
    os::{fd::AsRawFd, unix::fs::FileExt},
    process::{Command, Stdio},
    sync::Arc,
};

use crate::testbed::{Host, INTERFACE, Namespace};

use crate::hosts::{CLIENT, SERVER, on};

/// Address of the store, on the bridge in its namespace.
pub const STORE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// Hardware addresses of the client, and of all hosts. The hosts also share an IP address: to the client, they are one
/// host.
pub const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);

/// Client, router, hosts and store.
#[derive(Debug)]
pub struct Network {
    /// Host that sends the packets.
    pub client: Host,
    /// Router that spreads the packets.
    pub router: Namespace,
    /// Hosts with limiter.
    pub hosts: Vec<Host>,
    /// Namespace of the store.
    pub store: Namespace,
    /// Packets received by each host's `eth0`.
    pub(super) received: Arc<Received>,
}

impl Network {
    /// A network with this number of hosts. It carries only the test's packets, and answers to them.
    pub fn new(hosts: usize) -> Self {
        assert!((1..=100).contains(&hosts));
        let [client, router, store] = [(); 3].map(|()| quiet_namespace());
        let others: Vec<_> = (0..hosts).map(|_| quiet_namespace()).collect();
        let mut of_router = veth("eth0", "eth0", &client);
        // A bridge takes the lowest of its links' addresses by default. The address would change when that link leaves,
        // and the hosts would have to resolve it again.
        let mut of_store = format!(
            "link set lo up\nlink add store0 address 02:00:00:00:00:03 type bridge\n\
             address add {STORE}/24 dev store0\nlink set store0 up\n"
        );
        for (number, host) in others.iter().enumerate() {
            of_router += &veth(&format!("host{number}"), "eth0", host);
            of_store += &veth(&format!("link{number}"), "mgmt0", host);
            of_store += &format!("link set link{number} master store0\n");
        }
        router.ip(&of_router).unwrap();
        store.ip(&of_store).unwrap();
        client.ip(&eth0_lines(MACS.0, CLIENT)).unwrap();
        for (host, number) in others.iter().zip(10..) {
            let mgmt = format!("address add 198.51.100.{number}/24 dev mgmt0\nlink set mgmt0 up\n");
            host.ip(&(eth0_lines(MACS.1, SERVER) + &mgmt)).unwrap();
        }
        let hosts: Vec<_> = others
            .into_iter()
            .map(|address| host(address, MACS.1))
            .collect();
        Self {
            client: host(client, MACS.0),
            received: Arc::new(Received::of(&hosts)),
            router,
            hosts,
            store,
        }
    }

    /// Sets the master of a host's link to the store: `nomaster` drops all packets on it while it stays up, and
    /// `master store0` repairs it.
    pub fn set_link(&self, host: usize, master: &str) {
        let line = format!("link set link{host} {master}\n");
        self.store.ip(&line).unwrap();
    }
}

/// Counts the packets received by the hosts' interfaces, without starting processes.
#[derive(Debug)]
pub(super) struct Received(Vec<File>);

impl Received {
    fn of(hosts: &[Host]) -> Self {
        // The file shows the network namespace of the thread that opened it.
        let open = |host| on(host, || File::open("/proc/thread-self/net/dev")).unwrap();
        Self(hosts.iter().map(open).collect())
    }

    /// Number of packets that the programs on all hosts' `eth0` have processed. With native XDP, veth counts a packet
    /// after the program (`veth_xdp_rcv` in drivers/net/veth.c).
    pub(super) fn packets(&self) -> u64 {
        self.0.iter().map(received_on_eth0).sum()
    }
}

fn received_on_eth0(file: &File) -> u64 {
    let mut text = [0; 4_096];
    let length = file.read_at(&mut text, 0).unwrap();
    let text = std::str::from_utf8(&text[..length]).unwrap();
    let counts = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(INTERFACE)?.strip_prefix(':'));
    // Bytes, packets.
    let packets = counts.and_then(|counts| counts.split_whitespace().nth(1));
    packets.unwrap().parse().unwrap()
}

/// A namespace that sends nothing on its own.
fn quiet_namespace() -> Namespace {
    let namespace = Namespace::new().unwrap();
    let quieten = || {
        for interfaces in ["all", "default"] {
            // A kernel without IPv6 sends nothing.
            let _ = fs::write(
                format!("/proc/sys/net/ipv6/conf/{interfaces}/disable_ipv6"),
                "1",
            );
        }
    };
    namespace.run(quieten).unwrap();
    namespace
}

/// A veth pair with one end here, and the other, called `there`, in another namespace. This process keeps the
/// namespace's file open.
fn veth(here: &str, there: &str, other: &Namespace) -> String {
    let (process, file) = (std::process::id(), other.file().as_raw_fd());
    format!(
        "link add name {here} type veth peer name {there} netns /proc/{process}/fd/{file}\nlink set {here} up\n"
    )
}

/// The `ip` commands that configure `eth0`. It has no ARP: answers go to the router, which has no route for them.
fn eth0_lines(mac: [u8; 6], address: IpAddr) -> String {
    let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
    format!(
        "link set lo up\nlink set eth0 address {mac}\nlink set eth0 arp off\naddress add {address}/24 dev eth0\n\
         link set eth0 up\n"
    )
}

fn host(namespace: Namespace, mac: [u8; 6]) -> Host {
    let index = namespace.run(|| nix::net::if_::if_nametoindex(INTERFACE));
    Host {
        index: index.unwrap().unwrap(),
        namespace,
        mac,
    }
}

/// Runs a command in a namespace, with `input` on standard input. It must succeed.
pub(super) fn with_input(namespace: &Namespace, line: &[&str], input: &str) {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = namespace.run(|| command.spawn()).unwrap().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line:?}: {text}{input}");
}
