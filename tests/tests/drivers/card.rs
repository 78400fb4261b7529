//! Everything that is tried with one kind of card.

use std::{
    env, fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::Outcome,
    eventually,
    hosts::{Hosts, on},
    number,
    raw::Raw,
    testbed::Host,
    traffic::{Flood, ends},
};

use super::KINDS;

const SOURCE: &str = "198.51.100.7";
/// No token comes back during a test.
pub const LIMIT: &str = "--rate 1/h --burst 10";
pub const BURST: u64 = 10;
/// Time in which frames on their way arrive, and for all frames to arrive.
pub const SILENCE: Duration = Duration::from_millis(300);
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The two cards of a kind: their names in this machine.
pub struct Card([String; 2]);

impl Card {
    /// The cards of the kind in this line; none if the emulator or the kernel lacks them.
    pub fn find(line: usize) -> Option<Self> {
        let name = |side: usize| {
            let mac = format!("52:54:00:{line:02x}:00:{side:02x}");
            let mut names = fs::read_dir("/sys/class/net").unwrap().flatten();
            let found = names.find(|entry| {
                fs::read_to_string(entry.path().join("address"))
                    .is_ok_and(|address| address.trim() == mac)
            })?;
            found.file_name().into_string().ok()
        };
        Some(Self([name(1)?, name(2)?]))
    }

    /// The cards with this name in `cards.txt`.
    pub fn of_kind(name: &str) -> Option<Self> {
        // Only the emulated machines, which have a name, have cards in pairs.
        env::var_os("release")?;
        let line = KINDS
            .lines()
            .position(|line| line.split(';').next() == Some(name));
        // Cards come back some time after the last user's network namespace has gone.
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let card = Self::find(line.unwrap() + 1);
            if card.is_some() {
                return card;
            }
            thread::sleep(SILENCE);
        }
        None
    }

    /// Two hosts with these cards.
    pub fn hosts(&self) -> Hosts {
        Hosts::of_cards([&self.0[0], &self.0[1]])
    }
}

/// Runs a command on a host. Returns its output, or its last line of errors.
pub fn run(host: &Host, line: &str) -> Result<String, String> {
    step(line);
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap());
    let output = on(host, || command.args(words).output()).unwrap();
    let outcome = Outcome::of(line.to_owned(), output);
    let last = |text: &str| text.lines().last().unwrap_or_default().trim().to_owned();
    match outcome.status {
        0 => Ok(outcome.stdout),
        _ => Err(last(&outcome.stderr)),
    }
}

/// Writes a step to the kernel's log, beside the messages of the driver.
pub fn step(text: &str) {
    fs::write("/dev/kmsg", format!("limiter test: {text}\n")).unwrap();
}

/// Waits until both cards have a carrier: drivers negotiate again after many changes.
fn connected(hosts: &Hosts) {
    for host in [&hosts.server, &hosts.client] {
        eventually("the link is up", || {
            run(host, "ip link show eth0").is_ok_and(|shown| shown.contains("LOWER_UP"))
        });
    }
    let back = ends(hosts, SOURCE.parse().unwrap(), 9).udp(&[0; 18]);
    Raw::to_send(&hosts.server).send(&back);
    thread::sleep(SILENCE);
}

/// The cells of the page for this card.
pub fn examine(card: &Card) -> String {
    step(&format!("cards {:?}", card.0));
    let hosts = card.hosts();
    connected(&hosts);
    let shown = run(&hosts.server, "ethtool -i eth0").unwrap();
    let driver = shown.lines().find_map(|line| line.strip_prefix("driver: "));
    let foreseen = hosts.json("doctor eth0 --json")["mode"].clone();
    hosts.run(&format!("attach eth0 {LIMIT}"));
    let status = hosts.status();
    // The prediction may be `unknown`, but not wrong.
    let is_right = foreseen == status["mode"] || foreseen == "unknown";
    assert!(is_right, "{foreseen}, but {status:#}");
    let refused = status["fallback"].as_str();
    let native = refused.map_or("yes".to_owned(), |why| format!("no: {why}"));
    let mut cells = vec![driver.unwrap().to_owned(), native];
    cells.push(foreseen.as_str().unwrap().to_owned());
    cells.extend(exercise(&hosts));
    if refused.is_none() {
        hosts.run(&format!("attach eth0 {LIMIT} --mode generic"));
        exercise(&hosts);
    }
    cells.join(" | ")
}

/// Tries everything with the attached program, then detaches. Returns what the driver can do.
fn exercise(hosts: &Hosts) -> Vec<String> {
    let (receiver, mut meter) = (Raw::open(&hosts.server), Meter::new(hosts));
    let before = transmitted(&hosts.client);
    meter.send(30, 18, BURST);
    assert_eq!(transmitted(&hosts.client) - before, 30);
    assert_eq!(receiver.receive(SILENCE).len() as u64, BURST);
    meter.change_under_traffic();
    let mut cells = Vec::new();
    for [change, back] in [
        ["ip link set eth0 down", "ip link set eth0 up"],
        ["ip link set eth0 mtu 1400", "ip link set eth0 mtu 1500"],
        ["ip link set eth0 mtu 9000", "ip link set eth0 mtu 1500"],
        ["ethtool -G eth0 rx 128", "ethtool -G eth0 rx 256"],
        ["ethtool -L eth0 combined 1", "ethtool -L eth0 combined 2"],
        ["ethtool -r eth0", "ethtool -r eth0"],
    ] {
        let mut changed = run(&hosts.server, change);
        if change.ends_with("9000") && changed.is_ok() {
            run(&hosts.client, change).unwrap();
            if !meter.sends_jumbo_frame(&receiver) {
                changed = Err("the card loses frames".to_owned());
            }
            run(&hosts.client, back).unwrap();
        }
        if changed.is_ok() && !change.ends_with("down") {
            meter.send(5, 18, 0);
        }
        // Another number of queues may be refused: a card may have one.
        let _ = run(&hosts.server, back);
        meter.send(5, 18, 0);
        cells.push(changed.map_or_else(|why| format!("no: {why}"), |_| "yes".to_owned()));
    }
    assert_eq!(
        cells.drain(..2).collect::<Vec<_>>(),
        ["yes"; 2],
        "link and MTU"
    );
    let pins = hosts.pins();
    hosts.run("detach eth0");
    assert!(!pins.exists());
    cells
}

/// Sends packets of one source, and compares the counters with what was sent since the attachment.
struct Meter<'h> {
    hosts: &'h Hosts,
    wire: Raw,
    /// Packets seen, their bytes, and packets passed.
    totals: [u64; 3],
}

impl<'h> Meter<'h> {
    fn new(hosts: &'h Hosts) -> Self {
        Self {
            hosts,
            wire: Raw::open(&hosts.client),
            totals: [0; 3],
        }
    }

    fn frame(&self, bytes: usize) -> Vec<u8> {
        ends(self.hosts, SOURCE.parse().unwrap(), 9).udp(&vec![0; bytes])
    }

    /// Sends packets with so many bytes of payload. Exactly `passed` of them pass.
    #[track_caller]
    fn send(&mut self, packets: u64, bytes: usize, passed: u64) {
        connected(self.hosts);
        step(&format!("{packets} packets with {bytes} bytes"));
        let frame = self.frame(bytes);
        (0..packets).for_each(|_| self.wire.send(&frame));
        self.expect(packets, frame.len(), passed);
    }

    /// Sends a frame that needs several buffers. Returns whether the program has seen it. A frame that only the program
    /// does not see would pass the limits.
    fn sends_jumbo_frame(&mut self, receiver: &Raw) -> bool {
        connected(self.hosts);
        let frame = self.frame(8000);
        let _ = receiver.arrived();
        self.wire.send(&frame);
        let arrived = receiver.receive(5 * SILENCE);
        assert!(
            !arrived.contains(&frame),
            "the program did not see the frame"
        );
        let seen = number(&self.hosts.status()["seen"]["packets"]);
        let is_seen = seen != self.totals[0];
        if is_seen {
            self.expect(1, frame.len(), 0);
        }
        is_seen
    }

    /// Waits for this many more packets of this length, of which `passed` passed.
    #[track_caller]
    fn expect(&mut self, packets: u64, length: usize, passed: u64) {
        let more = [packets, packets * length as u64, passed];
        self.totals
            .iter_mut()
            .zip(more)
            .for_each(|(all, more)| *all += more);
        let start = Instant::now();
        loop {
            let status = self.hosts.status();
            let [seen, passed] = ["seen", "passed"].map(|verdict| &status[verdict]);
            let now = [&seen["packets"], &seen["bytes"], &passed["packets"]].map(number);
            if now == self.totals {
                return;
            }
            let is_late = start.elapsed() > PATIENCE;
            assert!(!is_late, "{now:?} instead of {:?}", self.totals);
        }
    }

    /// Raises the burst while packets arrive: exactly the added tokens pass.
    fn change_under_traffic(&mut self) {
        step("change under traffic");
        let frame = self.frame(18);
        let length = frame.len();
        let flood = Flood::start(self.hosts, vec![frame], Duration::from_millis(5));
        self.hosts.run(&format!("set eth0 --burst {}", 2 * BURST));
        thread::sleep(SILENCE);
        self.expect(flood.end(), length, BURST);
    }
}

/// Packets that the host's card has sent.
fn transmitted(host: &Host) -> u64 {
    let shown = run(host, "ip -json -stats link show eth0").unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    number(&shown[0]["stats64"]["tx"]["packets"])
}
