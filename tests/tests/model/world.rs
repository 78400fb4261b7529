//! Runs steps on the real kernel: three network namespaces, the command, and packets.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use aya::maps::{Map, MapData, PerCpuArray};
use limiter_common::{abi::counters::Counters as OfCpu, policy::verdict::Reason};
use limiter_tests::{
    command::{Outcome, prepared},
    files::Folder,
    packet::Frame,
    raw::Raw,
    testbed::Namespace,
};
use limiter_user::kernel::{program::raw, state::pins, sys::bpffs::BPFFS};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    time::{ClockId, clock_gettime},
};

use super::{bucket::Moments, config::files, model::Device};

/// Number of packets by the reason's number.
pub type Counts = [u64; Reason::ALL.len()];

pub struct World {
    /// Namespace of the commands.
    pub here: Namespace,
    /// Namespace that interfaces are moved to.
    pub away: Namespace,
    /// Namespace of the senders.
    peer: Namespace,
    folder: Folder,
    /// Pins of attachments, by name.
    pins: RefCell<BTreeMap<String, PathBuf>>,
    /// Sending and receiving socket of each interface. They stay open, because closing one takes long.
    sockets: RefCell<BTreeMap<u8, (Raw, Raw)>>,
}

fn clock(id: ClockId) -> u64 {
    let now: Duration = clock_gettime(id).unwrap().into();
    u64::try_from(now.as_nanos()).unwrap()
}

/// The clock that the program reads.
pub fn now() -> u64 {
    clock(ClockId::CLOCK_MONOTONIC)
}

/// The clock at the kernel's last tick.
pub fn last_tick() -> u64 {
    clock(ClockId::CLOCK_MONOTONIC_COARSE)
}

/// Runs `work` and measures its time.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Moments) {
    let (tick, before) = (last_tick(), now());
    let done = work();
    let after = now();
    let moments = Moments {
        tick,
        before,
        after,
    };
    (done, moments)
}

impl World {
    /// Makes the namespaces. Must be called in [`with_own_mounts`].
    pub fn new() -> Self {
        let flags = MsFlags::empty();
        mount(Some("bpf"), BPFFS, Some("bpf"), flags, Some("mode=0700")).unwrap();
        let quiet = || {
            let namespace = Namespace::new().unwrap();
            // Only the test sends packets.
            let disable = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            // A kernel without IPv6 is quiet.
            let _ = namespace.run(disable).unwrap();
            namespace
        };
        let folder = Folder::new();
        for file in files() {
            folder.write(file.name, file.text);
        }
        Self {
            here: quiet(),
            away: quiet(),
            peer: quiet(),
            folder,
            pins: RefCell::default(),
            sockets: RefCell::default(),
        }
    }

    /// A file's path, as `status` shows it.
    pub fn path(&self, file: &str) -> String {
        self.folder.path(file)
    }

    fn namespace(&self, device: &Device) -> &Namespace {
        if device.away { &self.away } else { &self.here }
    }

    /// The folder of an attachment's pins.
    pub fn pins(&self, name: &str) -> PathBuf {
        let known = self.pins.borrow().get(name).cloned();
        known.unwrap_or_else(|| {
            let found = self.here.run(|| pins::directory(name)).unwrap().unwrap();
            let mut pins = self.pins.borrow_mut();
            pins.entry(name.to_owned()).or_insert(found).clone()
        })
    }

    /// Runs `limiter`.
    pub fn limiter(&self, words: &[&str]) -> (Outcome, Moments) {
        let mut command = prepared(words);
        command.current_dir(self.folder.path("."));
        let (output, at) = timed(|| self.here.run(|| command.output()).unwrap().unwrap());
        (Outcome::of(words.join(" "), output), at)
    }

    /// Runs `ip` in a namespace. Returns false if it fails.
    fn ip(&self, namespace: &Namespace, line: &str) -> bool {
        let mut command = Command::new("ip");
        command.args(line.split_whitespace());
        let output = namespace.run(|| command.output()).unwrap().unwrap();
        output.status.success()
    }

    /// Changes an interface with the state `device`, if it exists. Returns false if that fails.
    pub fn move_device(&self, words: &[&str], device: Option<&Device>) -> bool {
        use std::os::fd::AsRawFd;

        // The sockets survive only the changes up, down and rename.
        if ["create", "delete", "away", "back"].contains(&words[0]) {
            self.sockets.borrow_mut().remove(&words[1].parse().unwrap());
        }
        let far = format!("far{}", words[1]);
        let path = |namespace: &Namespace| {
            let fd = namespace.file().as_raw_fd();
            format!("/proc/{}/fd/{fd}", std::process::id())
        };
        if words[0] == "create" {
            let queues = "numtxqueues 1 numrxqueues 1";
            let add = |index: &str| {
                let (name, peer) = (words[2], path(&self.peer));
                self.ip(
                    &self.here,
                    &format!(
                        "link add dev {name} {index} {queues} type veth peer name {far} {queues} netns {peer}"
                    ),
                )
            };
            // Interface numbers are used again, as they may be with several namespaces.
            return (add(&format!("index {}", words[3])) || add(""))
                && self.ip(&self.peer, &format!("link set dev {far} up"))
                && self.ip(&self.here, &format!("link set dev {} up", words[2]));
        }
        let Some(device) = device else {
            return false;
        };
        let name = &device.name;
        let set = |namespace: &Namespace, what: &str| {
            self.ip(namespace, &format!("link set dev {name} {what}"))
        };
        let carry = |from: &Namespace, to: &Namespace| {
            (device.away == words[0].eq("away") || set(from, &format!("netns {}", path(to))))
                && set(to, "up")
        };
        match words[0] {
            "delete" => self.ip(self.namespace(device), &format!("link delete dev {name}")),
            "up" | "down" => set(self.namespace(device), words[0]),
            "rename" if words[2] == name => true,
            "rename" => set(self.namespace(device), &format!("name {}", words[2])),
            "away" => carry(&self.here, &self.away),
            "back" => carry(&self.away, &self.here),
            other => panic!("no step: {other}"),
        }
    }

    /// Sends `count` packets to an interface that has no limiter or is down.
    pub fn send_in_vain(&self, device: &Device, far: u8, source: IpAddr, count: u64) {
        let mut sockets = self.sockets.borrow_mut();
        let (wire, _) = self.sockets_of(&mut sockets, device, far);
        let frame = Frame::from(source).bytes();
        // Ignores errors, because an interface that is down takes no packets.
        (0..count).for_each(|_| drop(wire.try_send(&frame)));
    }

    fn sockets_of<'a>(
        &self,
        sockets: &'a mut BTreeMap<u8, (Raw, Raw)>,
        device: &Device,
        far: u8,
    ) -> &'a (Raw, Raw) {
        sockets.entry(far).or_insert_with(|| {
            let wire = Raw::on(&self.peer, &format!("far{far}")).unwrap();
            let host = Raw::on(self.namespace(device), &device.name).unwrap();
            (wire, host)
        })
    }

    /// Sends `count` packets to an interface, and waits until the attachment `name` has counted `seen` packets. Returns
    /// its counts, which must agree with the packets that arrive.
    pub fn send(
        &self,
        device: &Device,
        far: u8,
        (source, count): (IpAddr, u64),
        (name, seen): (&str, u64),
    ) -> Result<(Counts, Moments), String> {
        let mut sockets = self.sockets.borrow_mut();
        let (wire, host) = self.sockets_of(&mut sockets, device, far);
        let frame = Frame::from(source).bytes();
        drop(host.arrived());
        let counters = Counters::open(&self.pins(name));
        let before = passed(counters.read());
        let (counted, at) = timed(|| {
            for _ in 0..count {
                wire.try_send(&frame)
                    .map_err(|error| format!("sending: {error}"))?;
            }
            wait(
                || counters.read(),
                |counts| counts.iter().sum::<u64>() >= seen,
            )
            .map_err(|counts| format!("{seen} were to be counted in all, and {counts:?} were"))
        });
        let counted = counted?;
        let mut arrived = 0;
        let through = passed(counted).wrapping_sub(before);
        let arriving = || {
            let frames = host.arrived().into_iter();
            arrived += frames.filter(|other| *other == frame).count() as u64;
            arrived
        };
        match wait(arriving, |arrived| *arrived >= through) {
            Ok(arrived) if arrived == through => Ok((counted, at)),
            Ok(arrived) | Err(arrived) => Err(format!(
                "{through} were counted as passed, and {arrived} arrived"
            )),
        }
    }
}

impl Drop for World {
    /// Removes the pins, even those of a failed sequence, by unmounting the file system.
    fn drop(&mut self) {
        let _ = umount2(BPFFS, MntFlags::MNT_DETACH);
    }
}

/// Runs `work` in a thread with its own mounts, so that tests share neither pins nor locks.
pub fn with_own_mounts<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let alone = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
            work()
        });
        alone
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Repeats `look` until `good` holds, for at most two seconds. Returns the last value as an error.
fn wait<T>(mut look: impl FnMut() -> T, good: impl Fn(&T) -> bool) -> Result<T, T> {
    let start = Instant::now();
    loop {
        let found = look();
        if good(&found) {
            return Ok(found);
        }
        if start.elapsed() > Duration::from_secs(2) {
            return Err(found);
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// Counters of an attachment.
struct Counters(PerCpuArray<MapData, raw::Raw<OfCpu>>);

impl Counters {
    fn open(pins: &Path) -> Self {
        let map = MapData::from_pin(pins.join("COUNTED")).unwrap();
        Self(Map::PerCpuArray(map).try_into().unwrap())
    }

    fn read(&self) -> Counts {
        let mut counts = Counts::default();
        for row in 0..self.0.len() {
            for raw::Raw(of_cpu) in self.0.get(&row, 0).unwrap().iter() {
                for (sum, count) in counts.iter_mut().zip(of_cpu.by_reason) {
                    *sum += count.packets;
                }
            }
        }
        counts
    }
}

fn passed(counts: Counts) -> u64 {
    let reasons = Reason::ALL.into_iter().filter(|reason| reason.passes());
    reasons.map(|reason| counts[reason as usize]).sum()
}
