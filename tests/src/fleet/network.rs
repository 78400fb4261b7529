//! The namespaces of a fleet, and the links between them.

use std::{
    fs::{self, File},
    io::Write,
    net::{IpAddr, Ipv4Addr},
    os::{fd::AsRawFd, unix::fs::FileExt},
    process::{Command, Stdio},
    sync::Arc,
};

use limiter_user::testbed::{Host, INTERFACE, Namespace};

use crate::hosts::{CLIENT, SERVER, on};

/// Address of the store, on the bridge in its namespace.
pub const STORE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// All hosts have one address, and one hardware address: to the client they are one.
const SERVICE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const STORE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// Client, router, hosts and store.
#[derive(Debug)]
pub struct Network {
    /// Where the packets come from.
    pub client: Host,
    /// Where they are spread.
    pub router: Namespace,
    /// Where limiter runs.
    pub hosts: Vec<Host>,
    /// Where the store runs.
    pub store: Namespace,
    /// What each host's `eth0` has received.
    pub(super) received: Arc<Received>,
}

impl Network {
    /// One with so many hosts. Nothing is sent in it but what is sent on purpose, and answers to that.
    #[must_use]
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

    /// Hardware addresses of a frame from the client to whatever host it gets to.
    #[must_use]
    pub fn macs(&self) -> ([u8; 6], [u8; 6]) {
        (CLIENT_MAC, SERVICE_MAC)
    }

    /// A host's address on the way to the store.
    #[must_use]
    pub fn address(host: usize) -> Ipv4Addr {
        Ipv4Addr::new(198, 51, 100, 10 + u8::try_from(host).unwrap())
    }

    /// Cuts a host's link to the store: both ends lose their carrier.
    pub fn cut(&self, host: usize) {
        ip(&self.store, &format!("link set link{host} down\n"));
    }

    /// Loses all packets on a host's link to the store, without a sign of it.
    pub fn lose(&self, host: usize) {
        ip(&self.store, &format!("link set link{host} nomaster\n"));
    }

    /// Makes a host's link to the store as narrow as this in both directions: packets wait for their turn, up to a
    /// second's worth of them. (Kernels without `netem` cannot delay packets otherwise.)
    pub fn narrow(&self, host: usize, bytes_per_second: u32) {
        let tbf = format!("tbf rate {bytes_per_second}bps burst 1600 latency 1s");
        let ends = [
            (&self.store, format!("link{host}")),
            (&self.hosts[host].namespace, "mgmt0".to_owned()),
        ];
        for (namespace, name) in ends {
            batch(
                namespace,
                "tc",
                &format!("qdisc replace dev {name} root {tbf}\n"),
            );
        }
    }

    /// Makes a host's link to the store whole again, and as wide as it was.
    pub fn heal(&self, host: usize) {
        ip(
            &self.store,
            &format!("link set link{host} up master store0\n"),
        );
        let ends = [
            (&self.store, format!("link{host}")),
            (&self.hosts[host].namespace, "mgmt0".to_owned()),
        ];
        for (namespace, name) in ends {
            batch(
                namespace,
                "tc",
                &format!("qdisc replace dev {name} root pfifo\n"),
            );
        }
    }
}

/// Reads, without a process of its own, how many packets the hosts' interfaces have received.
#[derive(Debug)]
pub(super) struct Received(Vec<File>);

impl Received {
    fn of(hosts: &[Host]) -> Self {
        // The file shows the namespace of the thread that has opened it.
        let open = |host| on(host, || File::open("/proc/thread-self/net/dev")).unwrap();
        Self(hosts.iter().map(open).collect())
    }

    /// Packets that the program on `eth0` has decided about, of all hosts: with native XDP, veth counts a packet behind
    /// the program (`veth_xdp_rcv` in drivers/net/veth.c).
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

/// One that sends nothing on its own.
fn quiet_namespace() -> Namespace {
    let namespace = Namespace::new().unwrap();
    let quieten = || {
        for of in ["all", "default"] {
            // A kernel without IPv6 is quiet.
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
    // Else it has the least of its links' addresses, and another one when a link leaves: hosts would look for it anew.
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

/// A veth pair with one end here, the other called `there` in another namespace.
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

/// Without ARP on `eth0`: what a host answers goes to the router, which has nowhere to send it.
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

/// A path that leads to it from any process, while this one lives.
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

/// Has `ip` do what the lines say.
fn ip(namespace: &Namespace, lines: &str) {
    batch(namespace, "ip", lines);
}

fn batch(namespace: &Namespace, program: &str, lines: &str) {
    with_input(namespace, &[program, "-batch", "-"], lines);
}

/// Runs a command in a namespace, with this on its standard input; it must succeed.
pub(super) fn with_input(namespace: &Namespace, line: &[&str], input: &str) {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = namespace.run(|| command.spawn()).unwrap().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = process.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line:?}: {said}{input}");
}
