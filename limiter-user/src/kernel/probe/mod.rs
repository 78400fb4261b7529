//! Everything that decides whether and how an interface can be attached to, found out without changing
//! anything: nothing is mounted, loaded or attached.

mod ethtool;
mod netdev;
mod virtio;

use std::{fs, fs::File, io, thread};

use nix::sched::{CloneFlags, setns};

pub use super::state::occupant::Occupant;
pub use ethtool::Channels;
pub use netdev::Features;
pub use virtio::Offloads;

use crate::kernel::{
    error::Result,
    sys::{
        bpffs,
        interface::{self, Interface},
        requirements,
        requirements::{KernelVersion, Needed},
    },
};

/// What is known of the machine, and of one interface.
#[derive(Debug)]
pub struct Survey {
    /// The interface's name.
    pub interface: String,
    /// The machine and this process.
    pub machine: Machine,
    /// The interface; an error where there is none.
    pub device: Result<Device>,
}

/// What is the same for all interfaces.
#[derive(Debug)]
pub struct Machine {
    /// What the kernel calls itself.
    pub release: String,
    /// Its version; an error where it is too old.
    pub kernel: Result<KernelVersion>,
    /// `net.core.bpf_jit_enable`; none where it cannot be read.
    pub jit: Option<u32>,
    /// Needed capabilities that this process lacks.
    pub missing: Vec<Needed>,
    /// Whether this process may mount a bpffs.
    pub may_mount: bool,
    /// Whether a bpffs is mounted; an error where pins would not stay.
    pub bpffs: Result<bool>,
    /// Processors that this process may run on.
    pub cpus: u32,
}

/// What is known of an interface. An answer that the kernel does not give is none.
#[derive(Debug)]
pub struct Device {
    /// What route netlink says of it.
    pub interface: Interface,
    /// Name of the driver.
    pub driver: Option<String>,
    /// What its driver can do with XDP (Linux 6.3).
    pub xdp: Option<Features>,
    /// Its queues.
    pub channels: Option<Channels>,
    /// Whether the card merges packets.
    pub lro: Option<bool>,
    /// Whether the stack merges packets.
    pub gro: Option<bool>,
    /// Whether the card takes the outer VLAN tag off.
    pub vlan: Option<bool>,
    /// What a virtio card was promised, where it is one.
    pub virtio: Option<Offloads>,
    /// Whose program it runs.
    pub occupant: Occupant,
}

/// Looks at the machine and at `name`.
pub async fn survey(name: &str) -> Result<Survey> {
    Ok(Survey {
        interface: name.to_owned(),
        machine: machine()?,
        device: device(name).await,
    })
}

fn machine() -> Result<Machine> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    Ok(Machine {
        release: requirements::release()?,
        kernel: requirements::kernel(),
        jit: jit(),
        missing: requirements::missing_capabilities()?,
        may_mount: requirements::may_mount()?,
        bpffs: bpffs::foresee(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
    })
}

async fn device(name: &str) -> Result<Device> {
    let interface = interface::by_name(name).await?;
    let ask = ethtool::Ethtool::new(name)?;
    Ok(Device {
        driver: ask.driver(),
        xdp: netdev::features(interface.index),
        channels: ask.channels(),
        lro: ask.lro(),
        gro: ask.gro(),
        vlan: ask.vlan(),
        virtio: interface.parent.as_deref().and_then(virtio::offloads),
        occupant: super::state::occupant::of(&interface).await,
        interface,
    })
}

/// Only the initial network namespace shows this setting, though it holds for all of them.
fn jit() -> Option<u32> {
    let here = || fs::read_to_string("/proc/sys/net/core/bpf_jit_enable");
    let there = || -> io::Result<String> {
        let initial = File::open("/proc/1/ns/net")?;
        // A thread of its own: this one stays where it is.
        thread::scope(|scope| {
            let read = scope.spawn(|| {
                setns(&initial, CloneFlags::CLONE_NEWNET)?;
                here()
            });
            read.join().unwrap_or_else(|_| here())
        })
    };
    here().or_else(|_| there()).ok()?.trim().parse().ok()
}
