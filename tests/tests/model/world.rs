//! Runs steps on the real kernel: two network namespaces, the command, and packets.

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
use limiter_kernel::{program::raw, state::pins, sys::bpffs::BPFFS};
use limiter_tests::{
    command::{Outcome, prepared},
    files::Folder,
    packet::Frame,
    raw::Raw,
    testbed::Namespace,
};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    time::{ClockId, clock_gettime},
};

use super::{bucket::Moments, config::files};

/// Number of packets by the reason's number.
pub type Counts = [u64; Reason::ALL.len()];

pub struct World {
    /// Namespace of the commands.
    pub here: Namespace,
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
        let (output, moments) = timed(|| self.here.run(|| command.output()).unwrap().unwrap());
        (Outcome::of(words.join(" "), output), moments)
    }

    /// Runs `ip` in a namespace. Returns false if it fails.
    fn ip(namespace: &Namespace, line: &str) -> bool {
        let mut command = Command::new("ip");
        command.args(line.split_whitespace());
        let output = namespace.run(|| command.output()).unwrap().unwrap();
        output.status.success()
    }

    /// Creates, deletes or renames an interface, which has the name `device` if it exists. Returns false if that fails.
    pub fn move_device(&self, words: &[&str], device: Option<&str>) -> bool {
        if words[0] == "create" {
            return self.create(words[1], words[2], words[3]);
        }
        let Some(name) = device else {
            return false;
        };
        if words[0] == "delete" {
            self.sockets.borrow_mut().remove(&words[1].parse().unwrap());
            return Self::ip(&self.here, &format!("link delete dev {name}"));
        }
        let new = words[2];
        new == name || Self::ip(&self.here, &format!("link set dev {name} name {new}"))
    }

    fn create(&self, far: &str, name: &str, index: &str) -> bool {
        use std::os::fd::AsRawFd;

        let fd = self.peer.file().as_raw_fd();
        let peer = format!("/proc/{}/fd/{fd}", std::process::id());
        let queues = "numtxqueues 1 numrxqueues 1";
        let add = |index: &str| {
            let line = format!(
                "link add dev {name} {index} {queues} type veth peer name far{far} {queues} netns {peer}"
            );
            Self::ip(&self.here, &line)
        };
        // Interface numbers are used again, as they may be with several namespaces.
        (add(&format!("index {index}")) || add(""))
            && Self::ip(&self.peer, &format!("link set dev far{far} up"))
            && Self::ip(&self.here, &format!("link set dev {name} up"))
    }

    fn sockets_of<'a>(
        &self,
        sockets: &'a mut BTreeMap<u8, (Raw, Raw)>,
        device: &str,
        far: u8,
    ) -> &'a (Raw, Raw) {
        sockets.entry(far).or_insert_with(|| {
            let wire = Raw::on(&self.peer, &format!("far{far}")).unwrap();
            let host = Raw::on(&self.here, device).unwrap();
            (wire, host)
        })
    }

    /// Sends `count` packets to an interface, and waits until the attachment `name` has counted `seen` packets. Returns
    /// its counts, which must agree with the packets that arrive.
    pub fn send(
        &self,
        device: &str,
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
        let (counted, moments) = timed(|| {
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
            Ok(arrived) if arrived == through => Ok((counted, moments)),
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
