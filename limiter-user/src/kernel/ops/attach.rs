//! Attaching: load, put on the interface, pin. Nothing is pinned before the interface has taken the
//! program, and the link last: whoever is killed on the way leaves no half of it behind.

use std::{io, time::Duration};

use crate::{
    config::{Mode, origin::Origins},
    kernel::{
        error::{Error, Result},
        ops::{chain, change::Wanted},
        program::{
            object,
            object::{ListMaps, Maps, Program, Variant},
        },
        state::{
            attachment::{Pinned, look_here, other_version_on, trouble},
            foreign,
            foreign::Foreign,
            generation, occupant,
            occupant::Holder,
            pins,
            record::{Record, Trial},
            unpin,
        },
        sys::{
            bpffs, clock,
            folder::Dir,
            interface,
            interface::{Interface, XdpMode, XdpState},
            link::Link,
            lock,
            lock::Lock,
            requirements,
        },
    },
};

/// A program on an interface, held by nothing but this process.
#[derive(Debug)]
pub struct Linked {
    /// The interface.
    pub interface: Interface,
    /// Where the program runs.
    pub mode: XdpMode,
    /// What it was made from.
    pub record: Record,
    /// The program.
    pub program: Program,
    link: Link,
}

/// Attaches to `name`, and pins: from here on no process is needed. `chain`: in front of the program that
/// is there, instead of where none is. After `trial`, if that is given, nothing is limited, unless it is kept before.
pub async fn attach(
    name: &str,
    wanted: &Wanted,
    chain: bool,
    trial: Option<Duration>,
) -> Result<()> {
    requirements::kernel()?;
    requirements::privileges()?;
    let interfaces = interface::all().await?;
    let interface = interface::named(&interfaces, name)?;
    bpffs::ensure()?;
    check_free(interface, &interfaces)?;
    let (folder, _lock) = lock_folder(name)?;
    // No program is swapped from here on.
    let interfaces = interface::all().await?;
    let free = interface::named(&interfaces, name)
        .and_then(|interface| check_free(interface, &interfaces))
        .and_then(|()| clear_leftover(&folder));
    if let Err(error) = free {
        // It is empty if it was made just now.
        let _ = folder.remove();
        unpin::clear_above(&folder);
        return Err(error);
    }
    let attached = put_in(&folder, name, wanted, chain, trial).await;
    // A program that could not be put back stays, with all that tells of it.
    if attached.is_err() && !foreign::is_pinned(&folder) {
        // The next command clears what stays.
        let _ = unpin::remove(&folder);
    }
    attached
}

/// The folder of an interface, made where it is not there, and its lock.
pub(in crate::kernel) fn lock_folder(interface: &str) -> Result<(Dir, Lock)> {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        let folder = pins::create(interface)?;
        let lock = lock::lock(&folder)?;
        // Another command may have removed it, and a third one made it anew.
        if folder.is_current()? {
            return Ok((folder, lock));
        }
    }
    Err(Error::Busy(lock::PATIENCE.as_secs()))
}

/// Attaches, with the lock of an attachment that is empty.
async fn put_in(
    folder: &Dir,
    name: &str,
    wanted: &Wanted,
    chain: bool,
    trial: Option<Duration>,
) -> Result<()> {
    // What a killed command had not put back is there again.
    let interface = interface::by_name(name).await?;
    if chain {
        return chain::put(&interface, wanted, folder, trial);
    }
    let linked = link(interface, wanted, trial)?;
    generation::pin_first(&linked.program, &linked.record, folder)?;
    linked.link.pin(folder)
}

/// Attaches to `name` for as long as the returned value lives.
pub async fn attach_unpinned(name: &str, wanted: &Wanted) -> Result<Linked> {
    requirements::kernel()?;
    requirements::privileges()?;
    link(interface::by_name(name).await?, wanted, None)
}

/// An error where something is attached, or has the name.
fn check_free(interface: &Interface, interfaces: &[Interface]) -> Result<()> {
    let name = &interface.name;
    if let Some(other) = other_version_on(interfaces, name)? {
        return Err(other.into());
    }
    for (folder, pinned) in look_here(interfaces)? {
        match pinned {
            Ok(Pinned::On(_, on)) if on.name == *name => return Err(already_attached(name)),
            // What a killed command has left is cleared.
            Ok(Pinned::Leftover) => {}
            pinned if folder.interface == *name => match trouble(&folder, pinned, interfaces) {
                Some(Error::Renamed { old, new }) => return Err(occupant::name_taken(&old, &new)),
                Some(error) => return Err(error),
                None => {}
            },
            _ => {}
        }
    }
    Ok(())
}

/// Removes what a killed command may have left.
fn clear_leftover(folder: &Dir) -> Result<()> {
    foreign::restore(folder, Foreign::open(folder)?)?;
    match unpin::empty(folder) {
        // It is in nobody's way.
        Err(Error::LeftAlone { .. }) => Ok(()),
        emptied => emptied,
    }
}

/// Loads and attaches, in the mode that was asked for or, if that may be, in the next best one.
fn link(interface: Interface, wanted: &Wanted, trial: Option<Duration>) -> Result<Linked> {
    if !interface.ethernet {
        return Err(no_ethernet(&interface));
    }
    if let Some(xdp) = interface.xdp {
        return Err(in_the_way(&interface, xdp));
    }
    in_best_mode(&interface, wanted.settings.mode, |mode, fallback| {
        link_in(&interface, mode, wanted, trial, fallback)
    })
}

/// Attaches by `link` in the mode that was asked for or, if that may be, in the next best one; then `link` is
/// told why.
pub(in crate::kernel) fn in_best_mode<T>(
    interface: &Interface,
    mode: Mode,
    link: impl Fn(XdpMode, Option<String>) -> Result<T, Refused>,
) -> Result<T> {
    let generic = |why| {
        link(XdpMode::Generic, why)
            .map_err(|refused| refused.into_error(interface, XdpMode::Generic))
    };
    if mode == Mode::Generic {
        return generic(None);
    }
    match link(XdpMode::Native, None) {
        Ok(linked) => Ok(linked),
        Err(Refused::ByDriver(why)) if mode == Mode::Auto => {
            generic(Some(no_native_reason(&why, interface)))
        }
        Err(refused) => Err(refused.into_error(interface, XdpMode::Native)),
    }
}

/// Who refused.
pub(in crate::kernel) enum Refused {
    /// The interface would not take the program in this mode.
    ByDriver(io::Error),
    /// It did not come so far.
    Before(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Before(error)
    }
}

impl Refused {
    pub(in crate::kernel) fn into_error(self, interface: &Interface, mode: XdpMode) -> Error {
        match self {
            Self::Before(error) => error,
            Self::ByDriver(why) if why.raw_os_error() == Some(libc::EPERM) => Error::NotPermitted,
            Self::ByDriver(why) if is_taken(&why) => Error::Refused(format!(
                "another XDP program (attached this moment) is attached to '{0}', and an interface runs one: `ip link show {0}` names it, remove it first",
                interface.name
            )),
            Self::ByDriver(why) if why.raw_os_error() == Some(libc::ENODEV) => {
                Error::NoInterface(interface.name.clone())
            }
            Self::ByDriver(why) if mode == XdpMode::Generic => refused(
                interface,
                &why,
                "generic mode works on every interface that has packets: please report this",
            ),
            Self::ByDriver(why) => Error::Refused(format!(
                "the driver of '{}' does not take the program in native mode ({}): {}",
                interface.name,
                no_native_reason(&why, interface),
                advice(&why)
            )),
        }
    }
}

fn is_taken(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn no_native_reason(why: &io::Error, interface: &Interface) -> String {
    match why.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "it has no XDP".to_owned(),
        Some(libc::ERANGE) => format!("its MTU of {} is too large for XDP", interface.mtu),
        _ => why.to_string(),
    }
}

fn advice(why: &io::Error) -> &'static str {
    match why.raw_os_error() {
        Some(libc::ERANGE) => {
            "lower the MTU (3498 fits every driver), or use --mode generic, which is slower"
        }
        _ => "use --mode generic, which works everywhere and is slower",
    }
}

/// The kernel would not attach the program.
pub(in crate::kernel) fn refused(interface: &Interface, why: &io::Error, advice: &str) -> Error {
    let name = &interface.name;
    Error::Refused(format!(
        "the kernel refused to attach to '{name}' ({why}): {advice}"
    ))
}

/// The program would take the first bytes of IP for an Ethernet header.
pub(in crate::kernel) fn no_ethernet(interface: &Interface) -> Error {
    Error::Refused(format!(
        "packets come in on '{}' without an Ethernet header, and limiter would read them wrongly: attach to the interface that they arrive on before",
        interface.name
    ))
}

fn already_attached(name: &str) -> Error {
    Error::Refused(format!(
        "limiter is attached to '{name}' already: change it with `limiter set {name}`, put this in force with --or-reload, or `limiter detach {name}` first"
    ))
}

fn link_in(
    interface: &Interface,
    mode: XdpMode,
    wanted: &Wanted,
    trial: Option<Duration>,
    fallback: Option<String>,
) -> Result<Linked, Refused> {
    let mut record = record(interface, mode, wanted, trial)?;
    record.fallback = fallback;
    let program = load(&mut record, |_| Ok(()))?;
    let link = Link::create(program.fd()?, interface.index, mode).map_err(Refused::ByDriver)?;
    Ok(Linked {
        interface: interface.clone(),
        mode,
        record,
        program,
        link,
    })
}

/// What is written down of a new attachment, which is on trial for so long.
pub(in crate::kernel) fn record(
    interface: &Interface,
    mode: XdpMode,
    wanted: &Wanted,
    trial: Option<Duration>,
) -> Result<Record> {
    let now = clock::today();
    let mut record = Record {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        origins: Origins::new(&wanted.settings.lists, wanted.by, &now),
        attached_at: now,
        namespace: pins::cookie()?,
        settings: wanted.settings.clone(),
        file: wanted.file.clone(),
        frame_max: interface.frame_max(mode),
        frags: requirements::kernel()?.has_frags(),
        trial: trial
            .map(|duration| Trial::lasting(duration, false))
            .transpose()?,
        ..Record::default()
    };
    record.take_slots();
    Ok(record)
}

/// Loads the program for packets in several buffers where the kernel has them and `accept` takes it, else the plain one.
pub(in crate::kernel) fn load(
    record: &mut Record,
    accept: impl Fn(&mut Program) -> Result<()>,
) -> Result<Program> {
    let config = record.config()?;
    let prefixes = record.settings.lists.compile(&record.tiers);
    let load = |frags: bool| {
        let lists = ListMaps::New(&prefixes);
        let mut program = object::load(Variant::Plain, &config, Maps::New, lists, frags)?;
        accept(&mut program)?;
        Ok(program)
    };
    match load(record.frags) {
        Err(
            Error::Refused(_)
            | Error::Load {
                what: "program", ..
            },
        ) if record.frags => {
            record.frags = false;
            load(false)
        }
        loaded => loaded,
    }
}

/// Names the program that is in the way, and says what can be done about it.
fn in_the_way(interface: &Interface, xdp: XdpState) -> Error {
    if let Some(error) = occupant::running(interface, xdp) {
        return error;
    }
    let name = &interface.name;
    let off = if xdp.mode == XdpMode::Generic {
        "xdpgeneric"
    } else {
        "xdp"
    };
    let front = format!("`limiter attach {name} --chain ...` runs in front of it");
    let how = match occupant::holder(xdp) {
        Holder::Netlink => {
            format!("{front}, or remove it first (`ip link set {name} {off} off`)")
        }
        Holder::Link(id) => occupant::end_link(id),
        Holder::Unknown => format!(
            "{front} if it was attached as `ip link` does; `ip link set {name} {off} off` removes it then, else the tool that put it there"
        ),
    };
    Error::Refused(format!("{}: {how}", occupant::in_the_way(interface, xdp)))
}
