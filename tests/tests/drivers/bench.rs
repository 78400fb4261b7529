//! Everything that is tried with an interface of software.

use std::{
    fs,
    net::Ipv4Addr,
    os::fd::AsRawFd,
    process, thread,
    time::{Duration, Instant},
};

use limiter_kernel::state::pins;
use limiter_tests::{
    eventually,
    hosts::{Hosts, on},
    need, number,
    packet::Ends,
    raw::Raw,
    testbed::Host,
    tun::Tun,
};

use super::{
    card::{BURST, Card, LIMIT, PATIENCE, SILENCE, run, step},
    devices::Device,
    path::{End, Path, Tag},
};

const FRAMES: u64 = 30;
/// Index of the server's `eth1`, which the commands for a team need.
const ETH1: u32 = 1_001;

/// The hosts with a device between them.
pub struct Bench<'d> {
    device: &'d Device,
    pub hosts: Hosts,
    /// The other end of `tap0`.
    pub guest: Option<Tun>,
    /// For each path: its frame without a VLAN tag, and the packets that reach the receiver without limits.
    frames: Vec<Vec<u8>>,
    reach: Vec<u64>,
}

/// The rows of the page about a device, one for each place to attach to; none if this machine lacks the device.
pub fn examine(device: &Device) -> Option<Vec<String>> {
    let bench = Bench::new(device)?;
    let places = device.places.iter();
    let places = places.filter(|place| need::tcx() || !place.ends_with(":out"));
    let row = |place: &&str| {
        let cells = bench.cells(place).join(" | ");
        let row = format!("| {} | `{place}` | {cells} |", device.name);
        println!("{row}");
        row
    };
    Some(places.map(row).collect())
}

impl<'d> Bench<'d> {
    pub fn new(device: &'d Device) -> Option<Self> {
        step(device.name);
        let hosts = match device.card {
            Some(kind) => Card::of_kind(kind)?.hosts(),
            None => Hosts::new(),
        };
        // New interfaces send nothing on their own.
        for host in [&hosts.server, &hosts.client] {
            let quiet = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
            on(host, || fs::write(quiet, "1")).unwrap();
        }
        let descriptor = hosts.client.namespace.file().as_raw_fd();
        let client_file = format!("/proc/{}/fd/{descriptor}", process::id());
        if device.card.is_none() {
            let wire = format!(
                "ip link add eth1 index {ETH1} type veth peer name eth1 netns {client_file}"
            );
            run(&hosts.server, &wire).unwrap();
            for host in [&hosts.server, &hosts.client] {
                run(host, "ip link set eth1 up").unwrap();
            }
        }
        let guest = device.paths.iter().any(|path| path.from == End::Guest);
        let guest = guest.then(|| Tun::tap(&hosts.server, "tap0").unwrap());
        let mut bench = Self {
            device,
            hosts,
            guest,
            frames: Vec::new(),
            reach: Vec::new(),
        };
        let Hosts { server, client } = &bench.hosts;
        for (host, lines) in [(server, device.server), (client, device.client)] {
            for line in lines {
                if let Err(why) = run(host, &line.replace("CLIENT", &client_file)) {
                    eprintln!("this machine cannot: {line}: {why}");
                    return None;
                }
            }
        }
        bench.connected();
        let paths = device.paths.iter().enumerate();
        bench.frames = paths
            .map(|(number, path)| bench.ends(path, number).udp(&[0; 18]))
            .collect();
        let paths = 0..device.paths.len();
        bench.reach = paths.map(|path| bench.send(path)).collect();
        assert!(
            bench.reach.iter().all(|reach| [0, FRAMES].contains(reach)),
            "{:?}",
            bench.reach
        );
        Some(bench)
    }

    /// Waits until each interface of a path has a carrier.
    fn connected(&self) {
        let ends = self
            .device
            .paths
            .iter()
            .flat_map(|path| [path.from, path.to]);
        for end in ends.chain([End::Server("eth0")]) {
            let (host, name) = self.interface(end);
            eventually("the link is up", || {
                run(host, &format!("ip link show {name}"))
                    .is_ok_and(|shown| shown.contains("LOWER_UP"))
            });
        }
        thread::sleep(SILENCE);
    }

    /// Tries everything at one place. Returns the cells after its name.
    fn cells(&self, place: &str) -> [String; 3] {
        let foreseen = self.hosts.json(&format!("doctor {place} --json"))["mode"].clone();
        self.hosts
            .run(&format!("attach {place} {LIMIT} --mode auto"));
        let mut status = self.status(place);
        // The prediction may be `unknown`, but not wrong.
        let is_right = foreseen == status["mode"] || foreseen == "unknown";
        assert!(is_right, "{foreseen}, but {status:#}");
        if status["mode"] == "tc" && !place.ends_with(":out") {
            self.hosts.run(&format!("detach {place}"));
            self.hosts
                .run(&format!("attach {place} {LIMIT} --mode xdp"));
            status = self.status(place);
        }
        let mode = status["mode"].as_str().unwrap().to_owned();
        let [mut sees, mut tag] = self.exercise(place);
        if mode == "native" {
            let attach = format!("attach {place} {LIMIT} --mode generic");
            self.hosts.run(&attach);
            let generic = self.exercise(place);
            for (native, generic) in [&mut sees, &mut tag].into_iter().zip(generic) {
                if *native != generic {
                    *native = format!("{native}; generic: {generic}");
                }
            }
        }
        let mode = match status["fallback"].as_str() {
            Some(why) => format!("{mode}: {why}"),
            None => mode,
        };
        [mode, sees, tag]
    }

    /// Sends packets on each path, changes limits and link meanwhile, and detaches. Returns the paths that the program
    /// sees, and their VLAN tags.
    fn exercise(&self, place: &str) -> [String; 2] {
        let (mut seen, mut tags) = (Vec::new(), Vec::new());
        // Nothing is counted before the first packet.
        let mut before = [0; 3];
        for (number, path) in self.device.paths.iter().enumerate() {
            let received = self.send(number);
            let wanted = |packets| [0, FRAMES].contains(&packets);
            let counts = self.more(place, &mut before, wanted);
            let [packets, bytes, passed] = counts;
            let context = format!("{}, {place}: {counts:?}", path.label);
            if packets == 0 {
                assert_eq!(
                    [received, bytes, passed],
                    [self.reach[number], 0, 0],
                    "{context}"
                );
                continue;
            }
            assert_eq!(passed, BURST, "{context}");
            assert_eq!(received, self.reach[number].min(BURST), "{context}");
            seen.push(number);
            let tag = bytes - FRAMES * self.frames[number].len() as u64;
            match (path.tag, tag / FRAMES) {
                (Tag::None, beyond) => assert_eq!(beyond, 0, "{context}"),
                (_, 4) => tags.push((path.label, "in the frame")),
                (_, beyond) => {
                    assert_eq!(beyond, 0, "{context}");
                    tags.push((path.label, "hidden"));
                }
            }
        }
        self.change(place, seen[0], before);
        let pins = on(&self.hosts.server, || pins::directory(place)).unwrap();
        self.hosts.run(&format!("detach {place}"));
        assert!(!pins.exists());
        assert_eq!(self.send(seen[0]), self.reach[seen[0]], "after detach");
        let labels: Vec<_> = seen
            .iter()
            .map(|&path| self.device.paths[path].label)
            .collect();
        tags.dedup_by_key(|(_, place)| *place);
        let tags: Vec<_> = match &tags[..] {
            [] => vec!["-".to_owned()],
            [(_, place)] => vec![(*place).to_owned()],
            several => several
                .iter()
                .map(|(label, place)| format!("{label}: {place}"))
                .collect(),
        };
        [labels.join(", "), tags.join(", ")]
    }

    /// Raises the burst while packets arrive: exactly the added tokens pass. Then switches the link off and on, after
    /// which the empty bucket still refuses packets.
    fn change(&self, place: &str, path: usize, mut before: [u64; 3]) {
        let sent = thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let (wire, frame) = (self.open(self.device.paths[path].from), self.frame(path));
                for _ in 0..FRAMES {
                    wire.send(&frame);
                    thread::sleep(Duration::from_millis(20));
                }
                FRAMES
            });
            let burst = 2 * BURST;
            self.hosts.run(&format!("set {place} --burst {burst}"));
            flood.join().unwrap()
        });
        // The last packets find the new burst, however long the change took.
        let rest = self.send(path);
        assert!(rest <= BURST);
        let all = sent + FRAMES;
        let [_, _, passed] = self.more(place, &mut before, |packets| packets == all);
        assert_eq!(passed, BURST, "{place}: change under traffic");
        let name = place.trim_end_matches(":out");
        for state in ["down", "up"] {
            let line = format!("ip link set {name} {state}");
            run(&self.hosts.server, &line).unwrap();
        }
        self.connected();
        assert_eq!(self.send(path), 0, "{place}: after link up");
        let [_, _, passed] = self.more(place, &mut before, |packets| packets == FRAMES);
        assert_eq!(passed, 0);
    }

    /// Sends packets on a path. Returns the number that arrive.
    fn send(&self, path: usize) -> u64 {
        let Path {
            label,
            from,
            to: receiver,
            ..
        } = &self.device.paths[path];
        if self.device.card.is_some() {
            // Drivers restart the link at many changes.
            self.connected();
        }
        step(&format!("{FRAMES} packets: {label}"));
        let (from, receiver) = (self.open(*from), self.open(*receiver));
        let frame = self.frame(path);
        (0..FRAMES).for_each(|_| from.send(&frame));
        let source = source(path).octets();
        let is_own = |frame: &&Vec<u8>| frame.windows(4).any(|bytes| bytes == source);
        // Emulated cards are slow.
        let silence = match self.device.card {
            Some(_) => 20 * SILENCE,
            None => SILENCE,
        };
        receiver.receive(silence).iter().filter(is_own).count() as u64
    }

    /// The frame of a path, which has addresses of its own.
    fn frame(&self, path: usize) -> Vec<u8> {
        let frame = &self.frames[path];
        match self.device.paths[path].tag {
            Tag::InFrame => [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat(),
            _ => frame.clone(),
        }
    }

    /// Addresses of the packets of a path, the one with this number.
    pub fn ends(&self, path: &Path, number: usize) -> Ends {
        let [from, receiver] = [path.from, path.to].map(|end| self.mac(end));
        Ends {
            macs: (from, receiver),
            from: (source(number), 40_000).into(),
            // Limits of outgoing packets have a bucket for each destination.
            to: ([192, 0, 2, 100 + number as u8], 9).into(),
        }
    }

    /// The host and the name of an interface.
    fn interface(&self, end: End) -> (&Host, &'static str) {
        match end {
            End::Client(name) => (&self.hosts.client, name),
            End::Server(name) => (&self.hosts.server, name),
            End::Guest => (&self.hosts.server, "tap0"),
        }
    }

    /// The hardware address of an end. The guest has one of its own.
    fn mac(&self, end: End) -> [u8; 6] {
        if end == End::Guest {
            return [2; 6];
        }
        let (host, name) = self.interface(end);
        let shown = run(host, &format!("ip -json link show {name}")).unwrap();
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let bytes = shown[0]["address"].as_str().unwrap().split(':');
        let bytes: Vec<_> = bytes
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        bytes.try_into().unwrap()
    }

    fn open(&self, end: End) -> Wire<'_> {
        let (host, name) = self.interface(end);
        match &self.guest {
            Some(guest) if end == End::Guest => Wire::Guest(guest),
            _ => Wire::Interface(Raw::at(&host.namespace, name).unwrap()),
        }
    }

    pub fn status(&self, place: &str) -> serde_json::Value {
        self.hosts.json(&format!("status {place} --json"))["interfaces"][0].clone()
    }

    /// Packets seen, their bytes, and packets passed.
    fn counts(&self, place: &str) -> [u64; 3] {
        let status = self.status(place);
        let [seen, passed] = ["seen", "passed"].map(|verdict| &status[verdict]);
        [&seen["packets"], &seen["bytes"], &passed["packets"]].map(number)
    }

    /// Waits until so many packets were seen since `before` as wanted. Returns the counts since then.
    #[track_caller]
    pub fn more(
        &self,
        place: &str,
        before: &mut [u64; 3],
        wanted: impl Fn(u64) -> bool,
    ) -> [u64; 3] {
        let start = Instant::now();
        loop {
            let now = self.counts(place);
            let counts = [0, 1, 2].map(|place| now[place] - before[place]);
            if wanted(counts[0]) {
                *before = now;
                return counts;
            }
            assert!(start.elapsed() < PATIENCE, "{place}: {counts:?}");
        }
    }
}

/// A sender or receiver.
enum Wire<'b> {
    Interface(Raw),
    Guest(&'b Tun),
}

impl Wire<'_> {
    fn send(&self, frame: &[u8]) {
        match self {
            Self::Interface(raw) => match raw.try_send(frame) {
                // A packet that limits of outgoing packets drop.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                sent => sent.unwrap(),
            },
            Self::Guest(guest) => guest.arrive(frame),
        }
    }

    fn receive(&self, silence: Duration) -> Vec<Vec<u8>> {
        match self {
            Self::Interface(raw) => raw.receive(silence),
            Self::Guest(guest) => guest.sent(silence),
        }
    }
}

/// The source address of the packets of a path.
const fn source(path: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, 1 + path as u8)
}
