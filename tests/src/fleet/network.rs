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

/// Hardware address of all hosts. They also share an IP address: to the client, they are one host.
const SERVICE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const STORE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];

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
        ip(&router, &links_of_router(&client, &others));
        ip(&store, &links_of_store(&others));
        ip(&client, &client_lines());
        for (number, host) in others.iter().enumerate() {
            ip(host, &host_lines(number));
        }
        let hosts: Vec<_> = (others.into_iter())
            .map(|namespace| host(namespace, SERVICE_MAC))
            .collect();
        Self {
            client: host(client, CLIENT_MAC),
            received: Arc::new(Received::of(&hosts)),
            router,
            hosts,
            store,
        }
    }

    /// Hardware addresses of a frame from the client to any host.
    pub fn macs(&self) -> ([u8; 6], [u8; 6]) {
        (CLIENT_MAC, SERVICE_MAC)
    }

    /// A host's address in the store's network.
    pub fn address(host: usize) -> Ipv4Addr {
        Ipv4Addr::new(198, 51, 100, 10 + u8::try_from(host).unwrap())
    }

    /// Drops all packets on a host's link to the store, while the link stays up.
    pub fn cut(&self, host: usize) {
        ip(&self.store, &format!("link set link{host} nomaster\n"));
    }

    /// Repairs a host's link to the store after [`Self::cut`].
    pub fn heal(&self, host: usize) {
        ip(&self.store, &format!("link set link{host} master store0\n"));
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
        for of in ["all", "default"] {
            // A kernel without IPv6 sends nothing.
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{of}/disable_ipv6"), "1");
        }
    };
    namespace.run(quieten).unwrap();
    namespace
}

fn links_of_router(client: &Namespace, hosts: &[Namespace]) -> String {
    let mut lines = veth("eth0", "eth0", client);
    for (number, host) in hosts.iter().enumerate() {
        lines += &veth(&format!("host{number}"), "eth0", host);
    }
    lines
}

fn links_of_store(hosts: &[Namespace]) -> String {
    // A bridge takes the lowest of its links' addresses by default. The address would change when that link leaves, and
    // the hosts would have to resolve it again.
    let mac = written(STORE_MAC);
    let mut lines = format!(
        "link set lo up\nlink add store0 address {mac} type bridge\naddress add {STORE}/24 dev store0\nlink set store0 up\n"
    );
    for (number, host) in hosts.iter().enumerate() {
        let name = format!("link{number}");
        lines += &veth(&name, "mgmt0", host);
        lines += &format!("link set {name} master store0\n");
    }
    lines
}

/// A veth pair with one end here, and the other, called `there`, in another namespace.
fn veth(here: &str, there: &str, other: &Namespace) -> String {
    format!(
        "link add name {here} type veth peer name {there} netns {}\nlink set {here} up\n",
        path(other)
    )
}

fn client_lines() -> String {
    format!(
        "link set eth0 address {mac}\nlink set eth0 arp off\naddress add {CLIENT}/24 dev eth0\nlink set eth0 up\n",
        mac = written(CLIENT_MAC)
    )
}

/// The `ip` commands that configure a host. `eth0` has no ARP: answers go to the router, which has no route for them.
fn host_lines(number: usize) -> String {
    format!(
        "link set lo up\nlink set eth0 address {mac}\nlink set eth0 arp off\naddress add {SERVER}/24 dev eth0\n\
         link set eth0 up\naddress add {address}/24 dev mgmt0\nlink set mgmt0 up\n",
        mac = written(SERVICE_MAC),
        address = IpAddr::V4(Network::address(number)),
    )
}

fn written(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// A path to the namespace for any process, while this process lives.
fn path(namespace: &Namespace) -> String {
    let fd = namespace.file().as_raw_fd();
    format!("/proc/{}/fd/{fd}", std::process::id())
}

fn host(namespace: Namespace, mac: [u8; 6]) -> Host {
    let index = namespace.run(|| nix::net::if_::if_nametoindex(INTERFACE));
    Host {
        index: index.unwrap().unwrap(),
        namespace,
        mac,
    }
}

/// Runs the lines as `ip` commands.
fn ip(namespace: &Namespace, lines: &str) {
    namespace.ip(lines).unwrap();
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
