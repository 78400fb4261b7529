//! Other tools show packets that limiter drops as docs/other-tools.md says: each cell of its table comes from the tool.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, UdpSocket},
    process::{Child, Command, Stdio},
    time::Duration,
};

use limiter_tests::{
    eventually,
    hosts::{CLIENT, Hosts, SERVER, on},
    need, need_kernel, number,
    testbed::Host,
};
use nix::{
    sys::{
        signal::{Signal, kill},
        socket::{setsockopt, sockopt::Ipv4RecvErr},
    },
    unistd::{Pid, gettid},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/other-tools.md");
const SENT: u64 = 20;
const PASSED: u64 = 5;
const PORT: u16 = 9;

/// The heads of the table's columns, and what is attached.
const COLUMNS: [(&str, &str); 4] = [
    ("native", "eth0 --mode native"),
    ("generic", "eth0 --mode generic"),
    ("tc", "eth0 --mode tc"),
    ("`eth0:out`", "eth0:out"),
];

/// Runs a command on a host. Returns its output.
fn tool(host: &Host, line: &str) -> String {
    let words: Vec<_> = line.split(' ').collect();
    let run = || Command::new(words[0]).args(&words[1..]).output();
    let output = on(host, run).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A tool that runs until it is interrupted.
struct Running(Child);

impl Running {
    /// Starts a tool on a host, and waits until it has written a line with `ready`.
    fn start(host: &Host, line: &str, ready: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let spawn = || {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).stdin(Stdio::piped());
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
        };
        let mut child = on(host, spawn).unwrap();
        let stderr = child.stderr.take().unwrap();
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let found = lines.find(|line| line.contains(ready));
        assert!(found.is_some(), "{line}: '{ready}' was wanted");
        // A full pipe would stop the tool.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    /// Interrupts the tool. Returns its output.
    fn end(mut self) -> String {
        // The rest is on its way through the tool.
        std::thread::sleep(Duration::from_millis(500));
        let id = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        kill(id, Signal::SIGINT).unwrap();
        let mut text = String::new();
        let mut stdout = self.0.stdout.take().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        self.0.wait().unwrap();
        text
    }
}

/// Packets, bytes, and dropped packets in one direction.
fn link(host: &Host, direction: &str) -> [u64; 3] {
    let shown: serde_json::Value =
        serde_json::from_str(&tool(host, "ip -s -j link show eth0")).unwrap();
    let counters = &shown[0]["stats64"][direction];
    ["packets", "bytes", "dropped"].map(|name| number(&counters[name]))
}

/// The sum of the queues' counters of this name in `ethtool -S`.
fn driver_counter(host: &Host, name: &str) -> u64 {
    let shown = tool(host, "ethtool -S eth0");
    let values = shown.lines().filter_map(|line| line.split_once(": "));
    values
        .filter(|(key, _)| key.contains(name))
        .map(|(_, value)| value.trim().parse::<u64>().unwrap())
        .sum()
}

/// The counter of this name in `nstat`, since the host was made.
fn nstat(host: &Host, name: &str) -> u64 {
    let shown = tool(host, &format!("nstat -asz {name}"));
    let line = shown.lines().find(|line| line.starts_with(name)).unwrap();
    let value = line.split_whitespace().nth(1).unwrap();
    value.parse().unwrap()
}

/// Records the reasons of the kernel for the packets that this thread's packets end with.
struct Reasons(Child);

impl Reasons {
    /// Starts to record. The trace and its mount are this process's alone.
    fn start() -> Self {
        let script = "mount -t tracefs none /sys/kernel/tracing && cd /sys/kernel/tracing/instances && mkdir $0 && \
             trap 'cd .. && rmdir $0' EXIT && cd $0 && echo \"common_pid == $1\" > events/skb/kfree_skb/filter && \
             echo 1 > events/skb/kfree_skb/enable && echo ready && read end && echo 0 > events/skb/kfree_skb/enable && cat trace";
        let name = format!("limiter{}", gettid());
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, &name, &gettid().to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut ready)
            .unwrap();
        assert_eq!(&ready, b"ready\n");
        Self(child)
    }

    /// The reasons for IPv4 packets, each once.
    fn end(mut self) -> Vec<String> {
        self.0.stdin.take().unwrap().write_all(b"end\n").unwrap();
        let mut text = String::new();
        let mut stdout = self.0.stdout.take().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        self.0.wait().unwrap();
        let lines = text.lines().filter(|line| line.contains("protocol=2048"));
        let reason =
            |line: &str| Some(line.split_once("reason: ")?.1.split(' ').next()?.to_owned());
        let mut reasons: Vec<_> = lines.filter_map(reason).collect();
        reasons.sort();
        reasons.dedup();
        reasons
    }
}

/// Sends from one host to another. Returns how many errors the sender got, and the kernel's reasons for drops.
fn send(sender: &Host, receiver: SocketAddr, wants_errors: bool) -> (u64, Vec<String>) {
    on(sender, || {
        let reasons = Reasons::start();
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        setsockopt(&socket, Ipv4RecvErr, &wants_errors).unwrap();
        let send = |_: &u64| match socket.send_to(&[0; 18], receiver) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS));
                true
            }
        };
        let errors = (0..SENT).filter(send).count() as u64;
        (errors, reasons.end())
    })
}

/// The cells of one column of the table.
fn column(attachment: &str) -> Vec<String> {
    let hosts = Hosts::new();
    let Hosts { server, client } = &hosts;
    let is_out = attachment.ends_with(":out");
    let (sender, receiver, address) = match is_out {
        false => (client, server, SERVER),
        true => (server, client, CLIENT),
    };
    // A socket, so that the receiver answers nothing.
    let bound = on(receiver, || UdpSocket::bind(("0.0.0.0", PORT))).unwrap();
    hosts.run(&format!("attach {attachment} --rate 1/h --burst {PASSED}"));
    let name = attachment.split(' ').next().unwrap();
    let direction = if is_out { "tx" } else { "rx" };
    let round = |wants_errors| {
        let before = link(server, direction);
        let (errors, reasons) = send(sender, (address, PORT).into(), wants_errors);
        eventually("limiter has seen all packets", || {
            let status = hosts.json(&format!("status {name} --json"));
            number(&status["interfaces"][0]["seen"]["packets"]) == SENT
        });
        let after = link(server, direction);
        let counted = [0, 1, 2].map(|place| after[place] - before[place]);
        (counted, errors, reasons)
    };
    let tcpdump = Running::start(
        server,
        "tcpdump -lni eth0 --immediate-mode udp port 9",
        "listening on",
    );
    let driver = driver_counter(server, "xdp_drops");
    let refused = nstat(sender, "UdpSndbufErrors");
    let (counted, errors, reasons) = round(false);
    let dumped = tcpdump.end();
    let dumped = dumped.lines().filter(|line| line.contains("UDP")).count();
    assert_eq!(errors, 0, "{attachment}: without IP_RECVERR");
    let driver = driver_counter(server, "xdp_drops") - driver;
    let refused = nstat(sender, "UdpSndbufErrors") - refused;
    hosts.run(&format!("detach {name}"));
    hosts.run(&format!("attach {attachment} --rate 1/h --burst {PASSED}"));
    let (_, errors, _) = round(true);
    drop(bound);
    vec![
        format!("{} {}", direction.to_uppercase(), counted[0]),
        (counted[1] / counted[0]).to_string(),
        counted[2].to_string(),
        driver.to_string(),
        dumped.to_string(),
        reasons.join(", "),
        refused.to_string(),
        errors.to_string(),
    ]
}

#[test]
fn other_tools_show_what_the_page_says() {
    need_kernel!();
    for program in ["tcpdump", "ethtool", "nstat"] {
        if !need::program("other_tools_show_what_the_page_says", program) {
            return;
        }
    }
    if !need::tcx() {
        return;
    }
    let columns: Vec<_> = COLUMNS.iter().map(|(_, attach)| column(attach)).collect();
    let page = fs::read_to_string(PAGE).unwrap();
    for (row, label) in [
        "`ip -s link show eth0`: packets",
        "`ip -s link show eth0`: bytes of each",
        "`ip -s link show eth0`: dropped",
        "`ethtool -S eth0`: the sum of `xdp_drops` (veth)",
        "`tcpdump -ni eth0`: packets",
        "`skb:kfree_skb`: the reason",
        "`nstat -asz UdpSndbufErrors`, on the sender",
        "errors of the sender with `IP_RECVERR` (ENOBUFS)",
    ]
    .iter()
    .enumerate()
    {
        let cells: Vec<_> = columns.iter().map(|column| &*column[row]).collect();
        let line = format!("| {label} | {} |", cells.join(" | "));
        println!("{line}");
        assert!(page.contains(&line), "the page has another row: {line}");
    }
}
