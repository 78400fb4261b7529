//! Builds two hosts on a wire, and counts their traffic.

use std::{
    fs,
    net::{Ipv4Addr, Ipv6Addr, UdpSocket},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use limiter_tests::testbed::{Address, Host, INTERFACE, Pair};
use nix::sys::socket::{setsockopt, sockopt::RcvBuf};

/// Counters of the traffic until now.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// Packets received from the wire, whatever their verdict.
    pub arrived: u64,
    /// Packets that the stack has delivered to the socket.
    pub delivered: u64,
}

/// A host that receives packets, and one that sends them.
#[derive(Debug)]
pub struct Testbed {
    /// The host with the subject.
    pub server: Host,
    /// The host with the sender.
    pub client: Host,
    /// The receiving socket. Its buffer is full, so that every packet is counted and discarded.
    _sink: UdpSocket,
}

/// Destination port of the packets: the discard service.
const PORT: u16 = 9;

impl Testbed {
    /// Builds the hosts, for packets from `cpus` processors at the same time.
    pub fn build(cpus: usize) -> Result<Self> {
        let addresses = |host: u8| {
            let ipv4 = Ipv4Addr::new(192, 0, 2, host);
            let ipv6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into());
            [Address(ipv4.into(), 24), Address(ipv6.into(), 64)]
        };
        let pair = Pair::new(&addresses(1), &addresses(2))?;
        let (server, client) = (pair.left, pair.right);
        // With IPv6, the client would report its multicast groups, which adds packets. Its frames need no address.
        let switch = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6");
        client.namespace.run(|| fs::write(switch, "1"))??;
        // A device receives redirected frames only if it polls: with a native program, or with receive offload, which
        // most network cards have.
        on(&server, &["ethtool", "-K", INTERFACE, "gro", "on"])?;
        let queues = cpus.to_string();
        on(&server, &["ethtool", "-L", INTERFACE, "rx", &queues])?;
        // Some systems refuse packets from an address without a route.
        for family in ["-4", "-6"] {
            let route = ["ip", family, "route", "add", "default", "dev", INTERFACE];
            on(&server, &route)?;
        }
        let sink = server.namespace.run(open_sink)??;
        Ok(Self {
            server,
            client,
            _sink: sink,
        })
    }

    /// The counters until now.
    pub fn counters(&self) -> Result<Counters> {
        self.server.namespace.run(|| {
            let devices = fs::read_to_string("/proc/thread-self/net/dev")?;
            let ipv4 = fs::read_to_string("/proc/thread-self/net/snmp")?;
            let ipv6 = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
            let refused_ipv6 = ipv6.lines().find_map(|line| {
                let count = line.strip_prefix("Udp6RcvbufErrors")?;
                count.trim().parse::<u64>().ok()
            });
            Ok(Counters {
                arrived: received(&devices).context("no counters of the interface")?,
                delivered: refused(&ipv4).context("no counters of UDP")?
                    + refused_ipv6.unwrap_or(0),
            })
        })?
    }
}

fn open_sink() -> Result<UdpSocket> {
    let socket = UdpSocket::bind(("::", PORT)).context("opening a socket")?;
    // The kernel rounds this up to its minimum.
    setsockopt(&socket, RcvBuf, &0)?;
    Ok(socket)
}

/// Packets received, from the file `net/dev`: the second number in the interface's line.
fn received(devices: &str) -> Option<u64> {
    let figures = devices
        .lines()
        .find_map(|line| line.trim().strip_prefix(INTERFACE)?.strip_prefix(':'))?;
    figures.split_whitespace().nth(1)?.parse().ok()
}

/// `RcvbufErrors` of UDP, from the file `net/snmp`: a line of names and a line of numbers.
fn refused(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp: "));
    let (names, figures) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|name| name == "RcvbufErrors")?;
    figures.split(' ').nth(at)?.parse().ok()
}

/// Runs a command on a host.
pub fn on(host: &Host, words: &[&str]) -> Result<()> {
    on_with_input(host, words, "")
}

/// Runs a command on a host, with `input` as its standard input. It must succeed.
pub fn on_with_input(host: &Host, words: &[&str], input: &str) -> Result<()> {
    use std::{io::Write as _, process::Stdio};
    let (program, arguments) = words.split_first().context("no command")?;
    let output = host.namespace.run(|| {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        child.wait_with_output()
    })?;
    let output = output.with_context(|| format!("`{program}` cannot be run"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`{}` failed: {}",
        words.join(" "),
        text.lines().next().unwrap_or("no message")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_are_found_by_name() {
        let devices = "head\n    lo: 1 2 3\n  eth0: 600 10 0 0\n";
        assert_eq!(super::received(devices), Some(10));
        let snmp = "Udp: InErrors RcvbufErrors X\nUdp: 7 8 9\nUdpLite: A\n";
        assert_eq!(super::refused(snmp), Some(8));
        assert_eq!(super::refused("Tcp: a\nTcp: 1\n"), None);
    }
}
