//! Where things are pinned: `/sys/fs/bpf/limiter/v<layout>/<interface>/`, and below that
//!
//! ```text
//! link                      what keeps the program attached
//! SETS DISPLACED TABLE ...  the maps that all programs work on
//! g<N>/program g<N>/record  one generation of the program, and what it was made from
//! g<N>/LISTED_IPV4 ...      its lists
//! ```
//!
//! The program that the link runs tells which generation is in force: a command that is killed while
//! it makes another one leaves a folder that nothing points to, and the next command clears it.
//!
//! bpffs allows no dots in names, and interface names are per network namespace: both are in the
//! name of the folder.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    fs,
    io::{self, ErrorKind},
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use limiter_common::layout;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::{
    before,
    bpffs::BPFFS,
    error::{Error, Result},
};

/// The maps that outlive a program.
pub const MAPS: [&str; 13] = [
    "SETS",
    "DISPLACED",
    "LOCKED",
    "TABLE",
    "COUNTED",
    "LIMITS",
    "CPUS",
    "LIST_HITS",
    "NEXT",
    "NEXT_FRAGS",
    "WATCH",
    "WATCHED",
    "EVENTS",
];

/// The maps of a generation.
pub const LIST_MAPS: [&str; 2] = ["LISTED_IPV4", "LISTED_IPV6"];

/// The folder of what limiter pins, whatever the layout.
pub(super) fn of_all_layouts() -> PathBuf {
    Path::new(BPFFS).join("limiter")
}

/// The folder of everything that this layout pins.
#[must_use]
pub fn root() -> PathBuf {
    root_of(layout::VERSION)
}

fn root_of(layout: u32) -> PathBuf {
    of_all_layouts().join(format!("v{layout}"))
}

/// The layouts that have left a folder, oldest first.
fn layouts() -> Result<Vec<u32>> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix('v')?.parse().ok();
    let mut numbers: Vec<u32> = entries(&of_all_layouts())?.filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The layouts that this limiter reads.
const READ: std::ops::RangeInclusive<u32> = before::OLDEST..=layout::VERSION;

/// A network namespace: none for the one of process 1, which people do not call a namespace, else the
/// kernel's cookie, which unlike an inode number is never used twice.
pub type Namespace = Option<u64>;

/// Inode of the first network namespace (`NET_NS_INIT_INO`, include/uapi/linux/nsfs.h, Linux 6.18).
const INITIAL_INODE: u64 = 0xefff_fff9;
/// Cookie of the first one before that: kernels count from 1 (`setup_net` in net/core/net_namespace.c).
const INITIAL_COOKIE: u64 = 1;

/// This thread's network namespace.
pub fn namespace() -> Result<Namespace> {
    let inode = |process: &str| fs::metadata(format!("/proc/{process}/ns/net")).map(|m| m.ino());
    // Of this thread: the demonstration's threads are in namespaces of their own.
    let own = inode("thread-self")
        .map_err(|error| Error::system("asking for the network namespace", error))?;
    let cookie = cookie()?;
    // Process 1 may be out of sight (`CAP_SYS_PTRACE`).
    let initial = own == INITIAL_INODE || cookie == INITIAL_COOKIE;
    if inode("1").map_or(initial, |of_init| of_init == own) {
        return Ok(None);
    }
    Ok(Some(cookie))
}

/// Cookie of this network namespace (Linux 5.14).
pub fn cookie() -> Result<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let failed = |error: io::Error| Error::system("asking for the network namespace", error);
    let socket = socket(
        AddressFamily::Unix,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .map_err(|error| failed(error.into()))?;
    let mut cookie = 0_u64;
    let mut length: libc::socklen_t = 8;
    // SAFETY: the option's value is eight bytes, which `cookie` is.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(cookie)
    } else {
        Err(failed(io::Error::last_os_error()))
    }
}

/// The folder of an interface of this network namespace.
pub fn directory(interface: &str) -> Result<PathBuf> {
    Ok(root().join(folder_name(interface, namespace()?)))
}

fn folder_name(interface: &str, namespace: Namespace) -> String {
    let mut name = String::new();
    for byte in interface.bytes() {
        match byte {
            b'.' | b'@' | b'%' => name.push_str(&format!("%{byte:02x}")),
            _ => name.push(char::from(byte)),
        }
    }
    if let Some(cookie) = namespace {
        name.push_str(&format!("@{cookie}"));
    }
    name
}

/// Interface and namespace of a folder.
fn parse_folder_name(name: &str) -> Option<(String, Namespace)> {
    let (encoded, namespace) = match name.split_once('@') {
        Some((encoded, cookie)) => (encoded, Some(cookie.parse().ok()?)),
        None => (name, None),
    };
    let mut interface = String::new();
    let mut rest = encoded;
    while let Some((before, after)) = rest.split_once('%') {
        let code = u8::from_str_radix(after.get(..2)?, 16).ok()?;
        interface.push_str(before);
        interface.push(char::from(code));
        rest = after.get(2..)?;
    }
    interface.push_str(rest);
    Some((interface, namespace))
}

/// The interface, by its name at attach, whose pins are in the folder `path`.
pub(super) fn interface_of(path: &Path) -> Option<String> {
    parse_folder_name(path.file_name()?.to_str()?).map(|(interface, _)| interface)
}

/// A folder of pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// The interface's name at attach.
    pub interface: String,
    /// The network namespace it was attached in.
    pub namespace: Namespace,
    /// The layout of what is in it.
    pub layout: u32,
}

/// All folders of the layouts that are read, in all network namespaces, by name.
pub fn folders() -> Result<Vec<Folder>> {
    folders_of(|layout| READ.contains(&layout))
}

/// The same of all other layouts: those of versions of limiter that this one knows nothing of.
pub fn folders_of_other_layouts() -> Result<Vec<Folder>> {
    folders_of(|layout| !READ.contains(&layout))
}

/// Older layouts first: a folder that moves to this layout meanwhile is not missed.
fn folders_of(which: impl Fn(u32) -> bool) -> Result<Vec<Folder>> {
    let mut folders = Vec::new();
    for layout in layouts()?.into_iter().filter(|layout| which(*layout)) {
        folders.extend(folders_in(layout)?);
    }
    folders.sort_by(|a, b| (a.namespace, &a.interface).cmp(&(b.namespace, &b.interface)));
    Ok(folders)
}

/// What is in a folder; nothing where it is not there.
fn entries(folder: &Path) -> Result<impl Iterator<Item = fs::DirEntry>> {
    let found = match fs::read_dir(folder) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(Error::path("reading", folder, error)),
    };
    Ok(found.into_iter().flatten().flatten())
}

fn folders_in(layout: u32) -> Result<Vec<Folder>> {
    let root = root_of(layout);
    let folders = entries(&root)?.filter_map(|entry| {
        let (interface, namespace) = parse_folder_name(entry.file_name().to_str()?)?;
        Some(Folder {
            path: entry.path(),
            interface,
            namespace,
            layout,
        })
    });
    Ok(folders.collect())
}

/// The folder of generation `number`.
#[must_use]
pub fn generation(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("g{number}"))
}

/// The generations in a folder, oldest first.
#[must_use]
pub fn generations(folder: &Path) -> Vec<u64> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix('g')?.parse().ok();
    let mut numbers: Vec<u64> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(number)
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Makes a folder and those above it, for whoever runs this alone. Where the bpffs is open to all, somebody
/// else may have made one of them before, and could take away what is pinned below.
pub fn create(folder: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| Error::path("making the folder", folder, error))?;
    let root = root();
    for above in [Some(root.as_path()), root.parent()].into_iter().flatten() {
        let metadata =
            fs::metadata(above).map_err(|error| Error::path("looking at", above, error))?;
        let is_own = [0, nix::unistd::geteuid().as_raw()].contains(&metadata.uid());
        if folder.starts_with(above) && (!is_own || metadata.mode() & 0o022 != 0) {
            return Err(Error::Bpffs(format!(
                "others may change what is pinned in {} (owner {}, mode {:o}): remove it if it is not yours, or `chown root` and `chmod 700` it",
                above.display(),
                metadata.uid(),
                metadata.mode() & 0o7777
            )));
        }
    }
    Ok(())
}

/// Removes a folder and what is in it, then the folders above it that are empty by then, up to
/// bpffs. What is gone already is no error.
pub fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Error::path("removing", folder, error));
        }
        _ => {}
    }
    let of_all = of_all_layouts();
    if folder.parent().and_then(Path::parent) == Some(&of_all) {
        clear_empty();
    }
    Ok(())
}

/// Removes the folders of layouts that are empty, and the one above them.
pub(super) fn clear_empty() {
    for layout in layouts().unwrap_or_default() {
        // Others are in it.
        let _ = fs::remove_dir(root_of(layout));
    }
    let _ = fs::remove_dir(of_all_layouts());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_read_back() {
        for (interface, namespace, folder) in [
            ("eth0", None, "eth0"),
            ("eth0.100", None, "eth0%2e100"),
            ("a@b%c", None, "a%40b%25c"),
            ("eth0", Some(4097), "eth0@4097"),
        ] {
            assert_eq!(folder_name(interface, namespace), folder);
            let read = parse_folder_name(folder);
            assert_eq!(read, Some((interface.to_owned(), namespace)), "{folder}");
        }
        assert_eq!(parse_folder_name("eth0@x"), None);
        assert_eq!(parse_folder_name("eth0%2"), None);
    }
}
