//! Attaching: load, attach to the interface, pin. Nothing is pinned before the interface has taken the program, and
//! the link is pinned last. So a command that is killed on the way leaves nothing half attached.

use std::{cell::Cell, io, time::SystemTime};

use limiter_common::abi::{Constants, NEXT_FOREIGN};
use limiter_config::{Direction, Mode, Settings, names::direction_of};

use crate::{
    Error, Result,
    ops::{
        bans::{Kept, restore},
        chain,
        change::Wanted,
    },
    program::{ListMaps, Maps, Program, object},
    state::{
        Foreign, Pinned, Record, Survey, Trial, foreign, generation, occupant, pins,
        survey::trouble, unpin,
    },
    sys::{
        Dir, Interface, Link, Lock, XdpMode, bpffs, clock, heard, interface, lock, native_mode,
        requirements,
    },
};

/// Attaches to `name` and pins: afterwards no process is needed.
pub async fn attach(name: &str, wanted: &Wanted) -> Result<()> {
    requirements::kernel()?;
    requirements::privileges()?;
    check_free(&mut Survey::take().await?, name)?;
    bpffs::ensure()?;
    let (folder, _lock) = lock_folder(name)?;
    // No program is swapped from here on.
    let free = async {
        check_free(&mut Survey::take().await?, name)?;
        clear_leftover(&folder).await
    };
    if let Err(error) = free.await {
        // The folder is empty if it was made just now.
        let _ = folder.remove();
        unpin::clear_above(&folder);
        return Err(error);
    }
    let attached = put_in(&folder, name, wanted).await;
    // If the other program could not be put back, its pins stay.
    if attached.is_err() && !foreign::is_pinned(&folder) {
        // The next command clears leftovers.
        let _ = unpin::remove(&folder);
    }
    attached
}

/// Opens the folder of an interface, makes it if it is missing, and locks it.
pub(crate) fn lock_folder(interface: &str) -> Result<(Dir, Lock)> {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        if let Some(folder) = pins::create(interface)?
            && let Some(lock) = lock::lock(&folder)?
        {
            return Ok((folder, lock));
        }
    }
    Err(Error::Busy(lock::PATIENCE.as_secs()))
}

/// Attaches, pinning in the empty `folder`. The caller holds the lock of the folder.
async fn put_in(folder: &Dir, name: &str, wanted: &Wanted) -> Result<()> {
    // A foreign program that a killed command had not put back runs again now: read the interface's state anew.
    let interface = interface::by_name(name).await?;
    interface.is_seen(wanted.settings.direction)?;
    if wanted.chain {
        return chain::put(&interface, wanted, folder).await;
    }
    check_pacing(&interface, &wanted.settings).await?;
    let (record, program, link) = link(interface, wanted)?;
    generation::pin_first(&program, &record, folder)?;
    link.pin(folder)
}

/// Fails if there is no such interface, something is attached to it, or has its name.
fn check_free(survey: &mut Survey, name: &str) -> Result<()> {
    interface::named(&survey.interfaces, name)?;
    match survey.take_named(name) {
        // `clear_leftover` removes the leftovers of a killed command.
        None | Some((_, Ok(Pinned::Leftover))) => Ok(()),
        Some((folder, Ok(Pinned::On(_, interface))))
            if interface.name == name && folder.is_of_this_layout() =>
        {
            Err(Error::AlreadyAttached(name.to_owned()))
        }
        Some((folder, pinned)) => trouble(&folder, pinned, &survey.interfaces).map_or(Ok(()), Err),
    }
}

/// Removes the leftovers of a killed command.
async fn clear_leftover(folder: &Dir) -> Result<()> {
    if let Some(foreign) = Foreign::open(folder)? {
        foreign.put_back(folder).await?;
    }
    match unpin::empty(folder) {
        // The remaining files do no harm.
        Err(Error::LeftAlone(..)) => Ok(()),
        emptied => emptied,
    }
}

/// Loads and attaches, in the wanted mode. With mode `auto`, falls back to the next best mode.
fn link(interface: Interface, wanted: &Wanted) -> Result<(Record, Program, Link)> {
    let direction = wanted.settings.direction;
    // The verifier takes most of the time: a refused program serves the next attempt if that needs the same one.
    let refused = Cell::new(None::<(Box<Constants>, bool, Program)>);
    let in_mode = |mode, fallback| {
        let mut record = record(&interface, mode, wanted)?;
        record.fallback = fallback;
        let config = record.config()?;
        let program = match refused.take() {
            Some((same, frags, program)) if same == config => {
                record.frags = frags;
                program
            }
            _ => load(&mut record, &wanted.bans, |_| Ok(()))?,
        };
        let link = match mode {
            XdpMode::Tc => Link::create_tc(program.fd()?, interface.index, direction, wanted.place),
            mode => Link::create(program.fd()?, interface.index, mode),
        };
        match link {
            Ok(link) => Ok(Ok((record, program, link))),
            Err(why) => {
                refused.set(Some((config, record.frags, program)));
                Ok(Err(why))
            }
        }
    };
    if needs_tc(&interface, wanted)? {
        return in_mode(XdpMode::Tc, None)?
            .map_err(|why| not_taken(&interface, XdpMode::Tc, &why.into()));
    }
    if let Some(xdp) = interface.xdp {
        return Err(occupant::refusal(&interface, xdp));
    }
    // The modes of XDP follow if the settings or the kernel need them.
    if prefers_tc(&interface, wanted.settings.mode)
        && let Ok(Ok(linked)) = in_mode(XdpMode::Tc, None)
    {
        return Ok(linked);
    }
    in_best_mode(&interface, wanted.settings.mode, in_mode)
}

/// Returns true if mode `auto` takes the network stack before the driver.
fn prefers_tc(interface: &Interface, mode: Mode) -> bool {
    let is_better = mode == Mode::Auto && native_mode::drawback(interface).is_some();
    // Packets would meet both programs: the user decides.
    let is_alone = interface.program_above.is_none();
    is_better && is_alone && requirements::has_tcx()
}

/// Fails if packets are to be delayed, and the interface would not delay them.
pub(crate) async fn check_pacing(interface: &Interface, settings: &Settings) -> Result<()> {
    let mut limits = settings.limits.iter();
    let Some(limit) = limits.find(|limit| limit.max_delay.is_some()) else {
        return Ok(());
    };
    if interface::has_fq(interface.index).await? {
        return Ok(());
    }
    let (name, _) = direction_of(&interface.name);
    Err(Error::Refused(format!(
        "limit '{}' has max_delay, but '{name}' does not delay packets, because its qdisc is not fq: `tc qdisc replace dev {name} root fq flow_limit 10000` (with several queues, fq below mq), or leave max_delay out",
        limit.name
    )))
}

/// The beginning of packets that limiter cannot read.
pub fn begins_with(interface: &Interface) -> &'static str {
    match interface.sends_outer {
        true => "begin with the header of another packet around them",
        false => "begin neither with an Ethernet nor with an IP header",
    }
}

/// Advice for an interface whose packets begin with another header, such as InfiniBand, or GRE without a peer.
pub const ELSEWHERE: &str = "attach to the interface that they arrive on first, or leave on last (GRE needs a `remote` of one host)";

/// Returns true if the program can run only in the network stack, or is wanted there. An error if it cannot run there.
fn needs_tc(interface: &Interface, wanted: &Wanted) -> Result<bool> {
    let (mode, name) = (wanted.settings.mode, &interface.name);
    if !interface.is_read(wanted.settings.direction) {
        return Err(Error::Refused(format!(
            "packets on '{name}' {}, and limiter would misread them: {ELSEWHERE}",
            begins_with(interface)
        )));
    }
    let reason = match wanted.settings.direction {
        Direction::Out => Some("XDP does not see packets that an interface sends"),
        Direction::In if !interface.ethernet => {
            Some("XDP needs an Ethernet header, which packets there have not")
        }
        Direction::In if wanted.place.is_some() => {
            Some("only tc runs several programs in an order")
        }
        Direction::In => None,
    };
    match (reason, mode) {
        (None, Mode::Auto | Mode::Native | Mode::Generic | Mode::Xdp) => return Ok(false),
        (Some(why), Mode::Native | Mode::Generic | Mode::Xdp) => {
            return Err(Error::Refused(format!(
                "mode {mode} is not possible on '{name}': {why}: use --hook tc, or leave the mode out"
            )));
        }
        _ => {}
    }
    if requirements::has_tcx() {
        return Ok(true);
    }
    let why = reason.map_or(String::new(), |why| format!("{why}, and "));
    Err(Error::Refused(format!(
        "{why}mode tc needs tcx, which this kernel lacks (Linux 6.6 and later have that): update the kernel, or attach to another interface"
    )))
}

/// Calls `link` for the wanted mode. It returns the driver's error as the inner one. With mode `auto`, falls back to
/// the next best mode and passes `link` the reason.
pub(crate) fn in_best_mode<T>(
    interface: &Interface,
    mode: Mode,
    link: impl Fn(XdpMode, Option<String>) -> Result<io::Result<T>>,
) -> Result<T> {
    let attempt =
        |mode, fallback: Option<String>| attempt(interface, || link(mode, fallback.clone()));
    let mut fallback = None;
    if mode != Mode::Generic {
        let native = match native_mode::obstacle(interface) {
            Some(why) => Err(io::Error::other(why).into()),
            None => attempt(XdpMode::Native, None)?,
        };
        match native {
            Ok(linked) => return Ok(linked),
            Err(why) if mode != Mode::Native => fallback = Some(no_native_reason(&why, interface)),
            Err(why) => return Err(not_taken(interface, XdpMode::Native, &why)),
        }
    }
    attempt(XdpMode::Generic, fallback)?.map_err(|why| not_taken(interface, XdpMode::Generic, &why))
}

/// The kernel's reason not to take a program, with its own words if it has some.
#[derive(Debug)]
pub(crate) struct Refusal {
    why: io::Error,
    words: Option<String>,
}

impl From<io::Error> for Refusal {
    fn from(why: io::Error) -> Self {
        Self { why, words: None }
    }
}

/// Calls `link`, and once more to hear the kernel's words if it fails and the error does not say enough.
fn attempt<T>(
    interface: &Interface,
    link: impl Fn() -> Result<io::Result<T>>,
) -> Result<Result<T, Refusal>> {
    let why = match link()? {
        Ok(linked) => return Ok(Ok(linked)),
        Err(why) => why,
    };
    let says_enough = match why.raw_os_error() {
        Some(libc::EPERM | libc::ENODEV) => true,
        Some(libc::EOPNOTSUPP) => interface.parent.is_none(),
        _ => false,
    };
    if says_enough {
        return Ok(Err(why.into()));
    }
    let (again, words) = heard::during(link);
    Ok(again?.map_err(|why| Refusal { why, words }))
}

/// Error for an interface that refuses the program in this mode.
pub(crate) fn not_taken(interface: &Interface, mode: XdpMode, refusal: &Refusal) -> Error {
    let (name, Refusal { why, words }) = (&interface.name, refusal);
    match why.raw_os_error() {
        Some(libc::EPERM) => Error::refused_by_kernel(),
        Some(libc::ENODEV) => Error::NoInterface(name.clone()),
        Some(libc::ENOENT) if mode == XdpMode::Tc => Error::Refused(format!(
            "no program with this id runs there: `bpftool net show dev {name}` lists the ids"
        )),
        Some(libc::EBUSY | libc::EEXIST) if mode != XdpMode::Tc => {
            occupant::program_above(interface)
                .unwrap_or_else(|| occupant::taken(name, why, words.as_deref()))
        }
        _ if mode != XdpMode::Native => Error::Refused(format!(
            "the kernel refused to attach to '{name}' ({why}): mode {} should work on every interface: please report this",
            mode.name()
        )),
        _ => Error::Refused(format!(
            "the driver of '{name}' does not accept the program in native mode ({}{}): use --mode generic, which works everywhere and is slower{}",
            no_native_reason(refusal, interface),
            occupant::said(words.as_deref()),
            match why.raw_os_error() {
                Some(libc::ERANGE) => ", or lower the MTU (3498 fits every driver)".to_owned(),
                Some(libc::ENOSPC) if interface.parent.is_none() =>
                    format!(", or {}", more_queues(name)),
                Some(libc::ENOSPC | libc::ENOMEM) =>
                    format!(", or change its queues (`ethtool -l {name}` shows them)"),
                _ => String::new(),
            }
        )),
    }
}

/// The reason why a veth has no native mode.
pub const TOO_FEW_QUEUES: &str =
    "it has fewer receive queues than its other end has transmit queues";

/// Advice for a veth called `name` without native mode.
pub fn more_queues(name: &str) -> String {
    format!(
        "`ethtool -L {name} rx N` for as many, or `ethtool -L PEER tx N` at the other end for fewer"
    )
}

fn no_native_reason(Refusal { why, words }: &Refusal, interface: &Interface) -> String {
    match why.raw_os_error() {
        Some(libc::EOPNOTSUPP) => match &interface.program_below {
            // bond_xdp_set in drivers/net/bonding/bond_main.c.
            Some(port) => format!("its port '{port}' has a program of its own"),
            None => "it does not support XDP".to_owned(),
        },
        Some(libc::ERANGE) => format!("its MTU of {} is too large for XDP", interface.mtu),
        // veth_xdp_set in drivers/net/veth.c.
        Some(libc::ENOSPC) if interface.parent.is_none() => TOO_FEW_QUEUES.to_owned(),
        Some(libc::ENOSPC | libc::ENOMEM) => {
            format!("too few queues for XDP, or no memory: {why}")
        }
        _ => words.clone().unwrap_or_else(|| why.to_string()),
    }
}

/// The record of a new attachment.
pub(crate) fn record(interface: &Interface, mode: XdpMode, wanted: &Wanted) -> Result<Record> {
    let mut record = Record {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        attached_at: clock::shown(SystemTime::now()),
        namespace: pins::cookie()?,
        settings: wanted.settings.clone(),
        file: wanted.file.clone(),
        instead: wanted.instead.clone(),
        frame_max: interface.frame_max(mode),
        frags: requirements::has_frags(),
        tc: mode == XdpMode::Tc,
        no_ethernet: !interface.ethernet,
        guest: interface.tap,
        chained: wanted.chain,
        trial: wanted
            .trial
            .map(|duration| Trial::lasting(duration, NEXT_FOREIGN))
            .transpose()?,
        ..Record::default()
    };
    record.take_slots();
    record.read_routes(interface)?;
    Ok(record)
}

/// Loads the program for packets in several buffers if the kernel has them and `accept` takes it, otherwise the plain
/// one. `bans` are in its maps.
pub(crate) fn load(
    record: &mut Record,
    bans: &[Kept],
    accept: impl Fn(&mut Program) -> Result<()>,
) -> Result<Program> {
    let config = record.config()?;
    let prefixes = record.settings.lists.compile(&record.tiers);
    let load = |frags: bool| {
        let lists = ListMaps::New(&prefixes);
        let mut program = object::load(&config, Maps::New, lists, frags)?;
        accept(&mut program)?;
        restore(&program, bans, config.bans)?;
        Ok(program)
    };
    match load(record.frags) {
        Err(_) if record.frags => {
            record.frags = false;
            load(false)
        }
        loaded => loaded,
    }
}
