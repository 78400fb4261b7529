//! Errors of operations on the kernel. Each message is one line: what failed, why, and what to do.
//!
//! An error has its own variant if a caller acts on it. All others are [`Error::Refused`].

use std::{io, path::PathBuf};

use anyhow::Chain;
use aya::maps::MapError;
use limiter_config::Invalid;

/// An operation on an interface failed; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operation was refused. The string is the whole message.
    #[error("{0}")]
    Refused(String),
    /// This process has no right to the operation. The string has the reason and advice.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// There is no such interface.
    #[error("no interface '{0}' in this network namespace: `ip link` lists the interfaces")]
    NoInterface(String),
    /// Limiter is not attached to the interface.
    #[error(
        "limiter is not attached to '{0}': `limiter attach {0} --rate RATE` attaches it, `limiter status` lists the interfaces that it is attached to"
    )]
    NotAttached(String),
    /// Limiter's program runs on the interface, and its pins are not in this bpffs: the interface, and the program's id.
    #[error(
        "limiter is not attached to '{0}' from here, but its program (id {1}) runs there, pinned in another bpffs, such as that of the container or host that attached it, or one below a bpffs that was mounted over it (`umount /sys/fs/bpf`): status, set and detach work only there; `bpftool link detach id ID` takes it off from here (`bpftool link` lists the ids)"
    )]
    PinnedElsewhere(String, u32),
    /// Limiter is attached to the interface already.
    #[error(
        "limiter is attached to '{0}' already: change its settings with `limiter set {0}`, replace them with --or-reload, or `limiter detach {0}` first"
    )]
    AlreadyAttached(String),
    /// A version with another layout of its pins is attached: the interface, and that layout.
    #[error(
        "another version of limiter is attached to '{0}' (layout {1}). This version can neither read nor change it, and its limits stay in force: `limiter attach {0} --or-reload --config FILE` replaces it without a gap, with full buckets; `limiter detach {0}` detaches it"
    )]
    OtherVersion(String, u32),
    /// The link is on no interface any more.
    #[error(
        "limiter does not run on '{0}' any more: the interface is gone, or another tool detached its program (as `bpftool link detach` does): `limiter detach {0}` removes the leftover pins"
    )]
    TakenOff(String),
    /// The interface is gone, and the program with it: its name, what outlives it, and the command that attaches again.
    #[error(
        "limiter does not run on '{0}' any more: the interface is gone, and its buckets with it; kept: {1}. When it is back, `{2}` limits it again; `limiter detach {0}` removes the leftover pins"
    )]
    Gone(String, String, String),
    /// The link follows the interface, which has a new name: its name at attach, and now.
    #[error(
        "limiter was attached to '{0}', which is called '{1}' now: use that name, or `limiter detach {1}` and attach again if another interface is called '{0}' now"
    )]
    Renamed(String, String),
    /// The interface was moved to another network namespace, and the link with it.
    #[error(
        "the interface that limiter was attached to as '{0}' is in another network namespace now, and still limited there: `limiter detach {0}`, run here, detaches it"
    )]
    Moved(String),
    /// bpffs is missing, or would vanish.
    #[error("{0}")]
    Bpffs(String),
    /// A file or folder that limiter did not make has one of its names: the path, and what is wrong with it.
    #[error(
        "{0} {1}, so limiter neither uses nor removes it: remove it if it is not needed, and close bpffs to other users (`chmod 700 /sys/fs/bpf`, docs/security.md)"
    )]
    Stranger(PathBuf, String),
    /// Limiter's own pins are gone, and other files are left: the interface, the folder, the files' names.
    #[error(
        "limiter is detached from '{0}', but {1} has files that limiter did not pin ({2}): remove them if they are not needed"
    )]
    LeftAlone(String, PathBuf, String),
    /// Another command holds the lock. The number: seconds waited.
    #[error(
        "another limiter command has held the lock for {0} s: wait until it ends, or end it, and try again"
    )]
    Busy(u64),
    /// The configuration does not fit the interface.
    #[error("{0}")]
    Invalid(#[from] Invalid),
    /// A file operation under bpffs failed.
    #[error("{operation} {path} failed ({source}): {advice}", advice = advice_on_files(.source))]
    Path {
        /// The operation that failed.
        operation: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The trial ended without `keep`, so nothing is limited: the interface, and the end in RFC 3339.
    #[error(
        "the trial on '{0}' ended at {1}, and nothing is limited: `limiter attach {0} --rate RATE` attaches again, `limiter detach {0}` removes the leftover pins"
    )]
    TrialOver(String, String),
    /// Netlink does not answer.
    #[error(
        "reading the interfaces failed ({0}): check whether a container or a seccomp filter forbids NETLINK_ROUTE sockets"
    )]
    Netlink(#[from] rtnetlink::Error),
}

/// Advice for a failure to make, open or remove a file on bpffs.
fn advice_on_files(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOMEM | libc::ENOSPC) => "free memory, and try again",
        Some(libc::EROFS) => "bpffs is mounted read-only: `mount -o remount,rw /sys/fs/bpf`",
        _ => "check that bpffs is writable",
    }
}

/// The kernel's error among the causes of `error`. Without one: `error` with its causes as text.
pub(crate) fn cause(error: impl std::error::Error + 'static) -> io::Error {
    let mut causes = Chain::new(&error).skip(1);
    let number = causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    number.map_or_else(
        || io::Error::other(flat(&error)),
        io::Error::from_raw_os_error,
    )
}

/// An error with its causes, on one line.
pub(crate) fn flat(error: &(dyn std::error::Error + 'static)) -> String {
    let causes: Vec<_> = Chain::new(error).map(ToString::to_string).collect();
    causes.join(": ")
}

/// Error for a map of limiter that could not be read or written.
pub(crate) fn read_failed(error: impl std::error::Error + 'static) -> Error {
    Error::system("reading limiter's maps", io::Error::other(flat(&error)))
}

impl From<MapError> for Error {
    fn from(error: MapError) -> Self {
        read_failed(error)
    }
}

impl Error {
    /// Error for pins of `interface` that cannot be read.
    pub(crate) fn unreadable(interface: &str, why: impl ToString) -> Self {
        let why = why.to_string();
        Self::Refused(format!(
            "the pins of '{interface}' cannot be read ({why}): `limiter detach {interface}`, then attach again"
        ))
    }

    /// Error for a program or maps that could not be loaded.
    pub(crate) fn load(object: &str, why: &str, advice: &str) -> Self {
        Self::Refused(format!("the kernel refused the {object} ({why}): {advice}"))
    }

    pub(crate) fn path(
        operation: &'static str,
        path: impl Into<PathBuf>,
        source: io::Error,
    ) -> Self {
        let path = path.into();
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::NotPermitted(format!(
                "{operation} {} failed, because user {} has no right to it: run it with sudo, or give that user /sys/fs/bpf/limiter (docs/security.md)",
                path.display(),
                nix::unistd::geteuid()
            ));
        }
        Self::Path {
            operation,
            path,
            source,
        }
    }

    /// Error if the kernel refuses although the process has the capabilities.
    pub(crate) fn refused_by_kernel() -> Self {
        Self::NotPermitted("the kernel refused an operation that CAP_BPF and CAP_NET_ADMIN normally allow: run it with sudo, and check whether a security module or a container forbids it".to_owned())
    }

    pub(crate) fn system(operation: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::refused_by_kernel();
        }
        Self::Refused(format!("{operation} failed ({source})"))
    }
}

/// Adds the operation that failed to an error of the system.
pub(crate) trait Failed<T> {
    fn failed(self, operation: &'static str) -> Result<T>;
    fn failed_at(self, operation: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Failed<T> for Result<T, E> {
    fn failed(self, operation: &'static str) -> Result<T> {
        self.map_err(|error| Error::system(operation, error.into()))
    }

    fn failed_at(self, operation: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|error| Error::path(operation, path, error.into()))
    }
}

/// Result of all functions in this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;
