//! Facts that decide whether and how limiter can attach to an interface. Finding them out changes nothing: nothing is
//! mounted or attached.

mod ethtool;
mod forwarding;
mod netdev;

use std::thread;

pub use ethtool::Channels;
pub use netdev::Features;

use limiter_config::names::direction_of;

use crate::{
    Result,
    state::occupant,
    sys::{Interface, XdpState, bpffs, interface, native_mode, requirements, requirements::Needed},
};

/// Facts that hold for all interfaces.
#[derive(Debug)]
pub struct Machine {
    /// The kernel's release name (`uname -r`).
    pub release: String,
    /// An error if the kernel lacks what every program needs.
    pub kernel: Result<()>,
    /// True if the kernel has packets in several buffers.
    pub has_frags: bool,
    /// True if the kernel has links to the hooks of the network stack.
    pub has_tcx: bool,
    /// Needed capabilities that this process lacks.
    pub missing: Vec<Needed>,
    /// True if this process may mount a bpffs.
    pub may_mount: bool,
    /// True if a bpffs is mounted; an error if pins would not stay.
    pub bpffs: Result<bool>,
    /// Processors that this process may run on.
    pub cpus: u32,
}

/// Facts about an interface. `None`: the kernel gives no answer.
#[derive(Debug)]
pub struct Device {
    /// The interface, as route netlink describes it.
    pub interface: Interface,
    /// The driver's name.
    pub driver: Option<String>,
    /// XDP features of the driver (Linux 6.3).
    pub xdp: Option<Features>,
    /// Its queues.
    pub channels: Option<Channels>,
    /// True if the card merges packets.
    pub lro: Option<bool>,
    /// True if the stack merges packets.
    pub gro: Option<bool>,
    /// True if the card takes the outer VLAN tag off frames, which hides it from XDP.
    pub strips_vlan: Option<bool>,
    /// True if the host forwards packets of the interface.
    pub forwards: bool,
    /// True if the host forwards connections with translated addresses, such as those of containers.
    pub translates: bool,
    /// True if the interface lets each packet leave at its time.
    pub has_fq: bool,
    /// The reason why the card cannot run a program in native mode.
    pub obstacle: Option<&'static str>,
    /// The reason why mode `auto` takes the network stack before the driver.
    pub drawback: Option<&'static str>,
    /// Limiter's own program on the interface; an error if something is in its way.
    pub own: Result<Option<XdpState>>,
}

/// Examines the machine.
pub fn machine() -> Result<Machine> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    Ok(Machine {
        release: requirements::release()?,
        kernel: requirements::kernel(),
        has_frags: requirements::has_frags(),
        has_tcx: requirements::has_tcx(),
        missing: requirements::missing_capabilities()?,
        may_mount: requirements::may_mount()?,
        bpffs: bpffs::foresee(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
    })
}

/// True if the stack merges packets of the interface called `name`. `None`: the kernel gives no answer.
pub fn gro(name: &str) -> Option<bool> {
    let ask = ethtool::Ethtool::new(direction_of(name).0).ok()?;
    ask.gro()
}

/// Examines the interface called `name`.
pub async fn device(name: &str) -> Result<Device> {
    let interface = interface::by_name(name).await?;
    let ask = ethtool::Ethtool::new(direction_of(name).0)?;
    Ok(Device {
        driver: ask.driver(),
        xdp: netdev::features(interface.index),
        channels: ask.channels(),
        lro: ask.lro(),
        gro: ask.gro(),
        strips_vlan: ask.strips_vlan(),
        forwards: forwarding::forwards(direction_of(name).0),
        translates: forwarding::translates(direction_of(name).0),
        has_fq: interface::has_fq(interface.index).await?,
        obstacle: native_mode::obstacle(&interface),
        drawback: native_mode::drawback(&interface).filter(|_| requirements::has_tcx()),
        own: occupant::of(&interface).await,
        interface,
    })
}
