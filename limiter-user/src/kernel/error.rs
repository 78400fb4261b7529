//! What can go wrong between here and the kernel. Each message is one line that says what, why and
//! what to do.

use std::{io, path::PathBuf};

use crate::config::Invalid;

/// An operation on an interface failed; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel is too old.
    #[error(
        "this kernel is {release}, and limiter needs {oldest} or later (atomic compare-and-swap and links for XDP): boot a newer kernel"
    )]
    KernelTooOld {
        /// What runs.
        release: String,
        /// What is needed.
        oldest: String,
    },
    /// This process lacks capabilities.
    #[error(
        "not permitted: this process lacks {capabilities}: run it with sudo, or give it the missing capabilities (docs/security.md)"
    )]
    Lacks {
        /// Their names, and what each is for.
        capabilities: String,
    },
    /// The kernel refused all the same.
    #[error(
        "not permitted: the kernel refused what CAP_BPF and CAP_NET_ADMIN allow elsewhere: run it with sudo, and see whether a security module or a container forbids it"
    )]
    NotPermitted,
    /// Something belongs to another user.
    #[error(
        "not permitted: {what} {path} failed, which user {user} has no right to: run it with sudo, or give that user /sys/fs/bpf/limiter (docs/security.md)"
    )]
    Denied {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Who tried.
        user: u32,
    },
    /// There is no such interface.
    #[error("no interface '{0}' in this network namespace: {advice}", advice = names_of_interfaces(.0))]
    NoInterface(String),
    /// The program would take the first bytes of IP for an Ethernet header.
    #[error(
        "packets come in on '{0}' without an Ethernet header, and limiter would read them wrongly: attach to the interface that they arrive on before"
    )]
    NoEthernet(String),
    /// Limiter is there already.
    #[error(
        "limiter is attached to '{0}' already: change it with `limiter set {0}`, put this in force with --or-reload, or `limiter detach {0}` first"
    )]
    AlreadyAttached(String),
    /// Limiter is there already, and `learn` wants the place.
    #[error(
        "limiter is attached to '{0}', and an interface runs one XDP program: `limiter detach {0}` and attach it again after learning, or capture what comes in and `limiter learn --capture FILE`"
    )]
    LearnAttached(String),
    /// `learn` is there.
    #[error(
        "`limiter learn` is running on '{interface}' (process {process}), and an interface runs one XDP program: wait until it is done, or end it with `kill -INT {process}`, upon which it proposes limits by what it has seen"
    )]
    Learning {
        /// The interface.
        interface: String,
        /// Its process.
        process: u32,
    },
    /// Another program is there, and `learn` wants the place.
    #[error(
        "another XDP program ({program}, {mode} mode) is attached to '{interface}', and an interface runs one: remove it for as long as you learn, or capture what comes in and `limiter learn --capture FILE`"
    )]
    LearnForeign {
        /// The interface.
        interface: String,
        /// Name and id of the program.
        program: String,
        /// Where it runs.
        mode: &'static str,
    },
    /// Another program is there.
    #[error(
        "another XDP program ({program}, {mode} mode) is attached to '{interface}', and an interface runs one: {how}"
    )]
    Foreign {
        /// The interface.
        interface: String,
        /// Name and id of the program.
        program: String,
        /// Where it runs.
        mode: String,
        /// How to run in front of it, or to remove it.
        how: String,
    },
    /// `--chain`, and nothing to run in front of.
    #[error(
        "no XDP program is attached to '{0}' that limiter could run in front of: attach that one first, or leave --chain out"
    )]
    ChainNothing(String),
    /// Opening programs of others wants more than limiter does otherwise.
    #[error(
        "not permitted: --chain opens the program that is on '{0}', which needs CAP_SYS_ADMIN: run it as root with all capabilities"
    )]
    ChainNotPermitted(String),
    /// `--chain` in front of what cannot be taken off and put back.
    #[error(
        "the XDP program on '{interface}' ({program}) is held by {holder}, and limiter can run in front of those only that were attached by netlink: {how}"
    )]
    ChainLink {
        /// The interface.
        interface: String,
        /// Name and id of the program.
        program: String,
        /// Link and process.
        holder: String,
        /// How to remove it.
        how: String,
    },
    /// `--chain` in another mode than the other program's.
    #[error(
        "the XDP program on '{interface}' ({program}) runs in {mode} mode, and with --chain limiter runs where that one does: {how}"
    )]
    ChainMode {
        /// The interface.
        interface: String,
        /// Name and id of the program.
        program: String,
        /// Where it runs.
        mode: &'static str,
        /// What to do.
        how: &'static str,
    },
    /// The kernel does not let limiter hand packets on to that program.
    #[error(
        "the kernel does not let limiter hand packets on to the XDP program on '{interface}' ({program}; {why}): {advice}"
    )]
    ChainRefused {
        /// The interface.
        interface: String,
        /// Name and id of the program.
        program: String,
        /// What the kernel said.
        why: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The other program is not on its interface any more, but it is not lost.
    #[error(
        "limiter is off '{interface}', but the XDP program that it ran in front of, {program}, could not be put back ({why}): {first} and `limiter detach {interface}` again; until then it stays pinned as {pin} (remove that to give it up)"
    )]
    NotPutBack {
        /// The interface.
        interface: String,
        /// Name and id of the program.
        program: String,
        /// What the kernel said.
        why: String,
        /// What to do first.
        first: &'static str,
        /// Where it is pinned.
        pin: PathBuf,
    },
    /// Limiter was killed, and the program that it ran in front of does not run.
    #[error(
        "limiter was ended on '{interface}' before it could put back {program}, which it ran in front of: `limiter detach {interface}` puts it back"
    )]
    Waiting {
        /// The interface.
        interface: String,
        /// Name and id of the program.
        program: String,
    },
    /// Limiter is off, and its pins are not.
    #[error(
        "limiter is off '{interface}', but its pins are left ({why}): `limiter detach {interface}` again clears them"
    )]
    PinsLeft {
        /// The interface.
        interface: String,
        /// What could not be removed, and why.
        why: Box<Error>,
    },
    /// Nothing is there.
    #[error(
        "limiter is not attached to '{0}': `limiter attach {0} --rate RATE` does that, `limiter status` shows where it is"
    )]
    NotAttached(String),
    /// A version with another layout of its pins is attached.
    #[error(
        "another version of limiter is attached to '{interface}' (layout {layout}), which this version can neither read nor change, and its limits stay in force: `limiter attach {interface} --or-reload --config FILE` replaces it without a gap, with full buckets; `limiter detach {interface}` takes it off"
    )]
    OtherVersion {
        /// The interface.
        interface: String,
        /// The layout of its pins.
        layout: u32,
    },
    /// A version with another layout runs in front of a foreign program.
    #[error(
        "another version of limiter runs in front of another program on '{0}' (--chain), which this version cannot replace: `limiter detach {0}` puts that program back, then attach again"
    )]
    ChainOfOther(String),
    /// The link outlived its interface.
    #[error(
        "the interface that limiter was attached to as '{0}' is gone, and limits nothing any more: `limiter detach {0}` clears what is left"
    )]
    InterfaceGone(String),
    /// The link is on no interface any more, and there is one of that name.
    #[error(
        "'{0}' is there, but not limited: the program of limiter was taken off it (as `bpftool link detach` does), or that interface is gone and another one has its name: `limiter detach {0}` clears what is left, then attach again"
    )]
    TakenOff(String),
    /// The link follows the interface, whose name has changed.
    #[error("limiter was attached to '{old}', which is called '{new}' now: use that name")]
    Renamed {
        /// Name at attach.
        old: String,
        /// Name now.
        new: String,
    },
    /// The pins of a renamed interface are in the way.
    #[error(
        "'{old}' was the name of '{new}' when limiter was attached to it, and its pins have that name: `limiter detach {new}` and attach to it again, then to '{old}'"
    )]
    NameTaken {
        /// The name that is taken.
        old: String,
        /// Whom it belongs to.
        new: String,
    },
    /// The link follows the interface, which is elsewhere now.
    #[error(
        "the interface that limiter was attached to as '{0}' is in another network namespace now, and limited there: `limiter detach {0}` here takes it off"
    )]
    Moved(String),
    /// Pinned maps of another build.
    #[error(
        "the pinned map {map} has another shape than this limiter's ({found}; wanted {wanted}): it was made by another build; `limiter detach {interface}`, then attach again"
    )]
    OtherShape {
        /// The interface.
        interface: String,
        /// Name of the map.
        map: String,
        /// Its shape.
        found: String,
        /// The shape of this build.
        wanted: String,
    },
    /// What is pinned cannot be made sense of.
    #[error(
        "what is pinned for '{interface}' cannot be read ({why}): `limiter detach {interface}`, then attach again"
    )]
    Unreadable {
        /// The interface.
        interface: String,
        /// The reason.
        why: String,
    },
    /// Drops are told to one process at a time.
    #[error(
        "{who} watches '{interface}' already, and drops are told to one at a time: end that first, or have it write to a file",
        who = process.map_or("another process".to_owned(), |process| format!("process {process}"))
    )]
    Watched {
        /// The interface.
        interface: String,
        /// Who watches, if that is known.
        process: Option<u64>,
    },
    /// There is nothing to watch any more.
    #[error(
        "limiter was detached from '{0}', so there is nothing to watch any more: `limiter attach {0} --rate RATE` attaches it again"
    )]
    WatchedDetached(String),
    /// The driver cannot.
    #[error(
        "the driver of '{interface}' does not take the program in native mode ({why}): {advice}"
    )]
    NoNative {
        /// The interface.
        interface: String,
        /// What the kernel said.
        why: String,
        /// What to do.
        advice: String,
    },
    /// The kernel would not attach the program.
    #[error("the kernel refused to attach to '{interface}' ({why}): {advice}")]
    Attach {
        /// The interface.
        interface: String,
        /// What the kernel said.
        why: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// bpffs is missing, or would vanish.
    #[error("{0}")]
    Bpffs(String),
    /// Something that limiter did not make has a name of its folders.
    #[error(
        "{path} {why}, so limiter neither uses nor removes it: remove it if nobody needs it, and close bpffs to others (`chmod 700 /sys/fs/bpf`, docs/security.md)"
    )]
    Stranger {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A folder in which nothing is to be pinned.
    #[error(
        "others may change what is pinned in {path} (owner: user {owner}, mode {mode:o}), so nothing was pinned there: run this as its owner, or `chown root` and `chmod 700` it"
    )]
    NotOwned {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// Limiter's own pins are gone, and something else is left.
    #[error(
        "limiter is off '{interface}', but {folder} holds what limiter did not pin ({names}): it was left alone, remove it if nobody needs it"
    )]
    LeftAlone {
        /// The interface.
        interface: String,
        /// The folder.
        folder: PathBuf,
        /// What is left.
        names: String,
    },
    /// Another command is at work.
    #[error(
        "another limiter command has been changing things for {0} s: wait for it, or end it, and try again"
    )]
    Busy(u64),
    /// The configuration does not fit the interface.
    #[error("{0}")]
    Invalid(#[from] Invalid),
    /// A file operation under bpffs failed.
    #[error("{what} {path} failed ({source}): {advice}", advice = advice_on_files(.source))]
    Path {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The program or a map could not be loaded.
    #[error("the kernel refused the {what} ({why}): {advice}")]
    Load {
        /// Program or map.
        what: &'static str,
        /// What the kernel said.
        why: String,
        /// What to do.
        advice: &'static str,
    },
    /// Nothing is limited after a trial that was not kept.
    #[error(
        "the trial on '{interface}' ended at {ended}, and nothing is limited: `limiter attach {interface} --rate RATE` attaches again, `limiter detach {interface}` clears what is left"
    )]
    TrialOver {
        /// The interface.
        interface: String,
        /// When, RFC 3339.
        ended: String,
    },
    /// A trial that was to be kept is over.
    #[error(
        "the trial on '{interface}' ended at {ended}, and what was in force before holds again: make the change once more to keep it"
    )]
    TooLate {
        /// The interface.
        interface: String,
        /// When, RFC 3339.
        ended: String,
    },
    /// There is one trial at a time.
    #[error(
        "a trial on '{interface}' runs until {until}, and there is one at a time: `limiter keep {interface}` keeps what it tries, `limiter keep {interface} --revert` ends it"
    )]
    TrialRuns {
        /// The interface.
        interface: String,
        /// Its end, RFC 3339.
        until: String,
    },
    /// There never was a trial.
    #[error(
        "nothing to keep: limiter is not attached to '{0}': `limiter attach {0} --rate RATE` attaches it"
    )]
    NothingToKeep(String),
    /// Netlink does not answer.
    #[error("asking the kernel about interfaces failed ({0}): is NETLINK_ROUTE available here?")]
    Netlink(#[from] rtnetlink::Error),
    /// Anything else of the system.
    #[error("{what} failed ({source})")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// What helps where a file of bpffs could not be made, opened or removed.
fn advice_on_files(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOMEM | libc::ENOSPC) => "free memory, and try again",
        Some(libc::EROFS) => "bpffs is mounted read-only: `mount -o remount,rw /sys/fs/bpf`",
        _ => "check that bpffs is writable",
    }
}

/// What the kernel said, of an error that has it among its causes; else the error with its causes.
pub(in crate::kernel) fn cause(error: impl std::error::Error) -> io::Error {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(number) = inner
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return io::Error::from_raw_os_error(number);
        }
        cause = inner.source();
    }
    io::Error::other(flat(&error))
}

/// An error with its causes, on one line.
pub(in crate::kernel) fn flat(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// A map of limiter's could not be read or written.
pub(in crate::kernel) fn read_failed(error: impl std::error::Error) -> Error {
    Error::system("reading the limiter's maps", io::Error::other(flat(&error)))
}

/// `ip link` shows the other end behind the name.
fn names_of_interfaces(name: &str) -> String {
    match name.split_once('@') {
        Some((name, _)) if !name.is_empty() => {
            format!("leave out the @ and what follows it, which is another one: '{name}'")
        }
        _ => "`ip link` lists those that there are".to_owned(),
    }
}

impl Error {
    pub(in crate::kernel) fn stranger(path: impl Into<PathBuf>, why: &str) -> Self {
        Self::Stranger {
            path: path.into(),
            why: why.to_owned(),
        }
    }

    pub(in crate::kernel) fn path(
        what: &'static str,
        path: impl Into<PathBuf>,
        source: io::Error,
    ) -> Self {
        let path = path.into();
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::Denied {
                what,
                path,
                user: nix::unistd::geteuid().as_raw(),
            };
        }
        Self::Path { what, path, source }
    }

    pub(in crate::kernel) fn system(what: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::NotPermitted;
        }
        Self::System { what, source }
    }
}

/// Result of everything in this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;
