//! Paths of pins: `/sys/fs/bpf/limiter/v<layout>/<interface>/`, and in that folder:
//!
//! ```text
//! link                      keeps the program attached
//! SETS OVERFLOW TABLE ...  the maps that all programs work on
//! g<N>/program g<N>/record  one generation: the program, and its record
//! g<N>/LISTED               its lists
//! ```
//!
//! A command that is killed while it makes a generation leaves a folder that nothing refers to. The next command
//! clears it.
//!
//! bpffs allows no dots in names, and interface names are per network namespace. So the folder's name encodes the
//! interface's name, and includes the namespace.

use std::path::{Path, PathBuf};

use limiter_common::abi;
use nix::{
    getsockopt_impl, sockopt_impl,
    sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, socket},
};

use crate::{
    Failed, Result,
    sys::{Dir, Link, LinkInfo, bpffs, folder::BPFFS},
};

/// The folder that the `limiter watch` in this place locks.
pub fn watch(place: u32) -> String {
    format!("watch{place}")
}

/// The folder that each `limiter watch` locks that wants packets that pass.
pub const PASSED: &str = "passed";

/// The folder of everything that this layout pins.
pub fn root() -> PathBuf {
    bpffs::own().join(layout_name(abi::VERSION))
}

fn layout_name(layout: u32) -> String {
    format!("v{layout}")
}

/// A network namespace. `None` for that of process 1, which users do not regard as a namespace; the kernel's cookie
/// for others. Unlike an inode number, a cookie is never used twice.
pub type Namespace = Option<u64>;

/// Inode of the first network namespace (`NET_NS_INIT_INO`, include/uapi/linux/nsfs.h, Linux 6.18).
const INITIAL_INODE: u64 = 0xefff_fff9;
/// Cookie of the first network namespace on older kernels: they count from 1 (`setup_net` in
/// net/core/net_namespace.c).
const INITIAL_COOKIE: u64 = 1;

/// This thread's network namespace.
pub fn namespace() -> Result<Namespace> {
    let cookie = cookie()?;
    let is_first = |own| own == INITIAL_INODE || cookie == INITIAL_COOKIE;
    let shared = bpffs::shared_with_init("net", is_first);
    let shared = shared.failed("reading the network namespace")?;
    Ok((!shared).then_some(cookie))
}

sockopt_impl!(
    /// The cookie of a socket's network namespace (Linux 5.14).
    NetnsCookie,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_NETNS_COOKIE,
    u64
);

/// Cookie of this thread's network namespace.
pub fn cookie() -> Result<u64> {
    let (family, kind) = (AddressFamily::Unix, SockType::Datagram);
    socket(family, kind, SockFlag::SOCK_CLOEXEC, None)
        .and_then(|socket| getsockopt(&socket, NetnsCookie))
        .failed("reading the network namespace")
}

/// The folder of an interface of this network namespace.
pub fn directory(interface: &str) -> Result<PathBuf> {
    Ok(root().join(folder_name(interface, namespace()?)))
}

fn folder_name(interface: &str, namespace: Namespace) -> String {
    let mut name = String::new();
    for byte in interface.bytes() {
        match byte {
            b'.' | b'@' | b'%' | 0x80.. => name.push_str(&format!("%{byte:02x}")),
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
    let mut parts = encoded.split('%');
    let mut interface = parts.next()?.as_bytes().to_vec();
    for part in parts {
        interface.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        interface.extend(part.get(2..)?.bytes());
    }
    Some((String::from_utf8(interface).ok()?, namespace))
}

/// The interface's name at attach, from the path of its folder.
pub(crate) fn interface_of(path: &Path) -> Option<String> {
    parse_folder_name(path.file_name()?.to_str()?).map(|(interface, _)| interface)
}

/// A folder of pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Path of the folder.
    pub path: PathBuf,
    /// The interface's name at attach.
    pub interface: String,
    /// The network namespace in which limiter was attached.
    pub namespace: Namespace,
    /// The layout of the pins in the folder.
    pub layout: u32,
}

/// All folders, in all network namespaces, by name. For one name, the oldest layout comes first.
pub fn folders() -> Result<Vec<Folder>> {
    let mut folders = Vec::new();
    let Some(of_all) = Dir::walk(&bpffs::own())? else {
        return Ok(folders);
    };
    for name in of_all.names()? {
        let layout = name
            .strip_prefix('v')
            .and_then(|layout| layout.parse().ok());
        if let Some(layout) = layout
            && let Some(root) = of_all.open(&layout_name(layout))?
        {
            folders.extend(root.names()?.iter().filter_map(|name| {
                let (interface, namespace) = parse_folder_name(name)?;
                Some(Folder {
                    path: root.path().join(name),
                    interface,
                    namespace,
                    layout,
                })
            }));
        }
    }
    folders.sort_by_key(|folder| (folder.namespace, folder.interface.clone(), folder.layout));
    Ok(folders)
}

impl Folder {
    /// True if this version's layout is that of the folder's pins.
    pub(crate) fn is_of_this_layout(&self) -> bool {
        self.layout == abi::VERSION
    }

    /// Opens the folder; `None` if it is gone.
    pub(crate) fn open(&self) -> Result<Option<Dir>> {
        Dir::walk(&self.path)
    }

    /// Opens the folder and its link; `None` if there is no link.
    pub(crate) fn linked(&self) -> Result<Option<(Dir, Link, LinkInfo)>> {
        while let Some(dir) = self.open()? {
            if let Some(link) = Link::open(&dir)? {
                let info = link.info()?;
                return Ok(Some((dir, link, info)));
            }
            if dir.is_current()? {
                break;
            }
        }
        Ok(None)
    }
}

/// The name of generation `number` in the folder of an attachment.
pub fn generation(number: u64) -> String {
    format!("g{number}")
}

/// The number of the generation in this name of a folder.
pub(crate) fn generation_number(name: &str) -> Option<u64> {
    name.strip_prefix('g')?.parse().ok()
}

/// The generations of an attachment, oldest first.
pub fn generations(folder: &Dir) -> Result<Vec<u64>> {
    let names = folder.names()?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| generation_number(name))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes the folder of an interface of this network namespace, and its parents; `None` if a `detach` has removed a parent
/// meanwhile, because it was empty.
pub(crate) fn create(interface: &str) -> Result<Option<Dir>> {
    let path = directory(interface)?;
    let mut made = Dir::root()?;
    for component in path.strip_prefix(BPFFS).unwrap_or(&path) {
        made = match made {
            Some(folder) => folder.make(&component.to_string_lossy())?,
            None => return Ok(None),
        };
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_read_back() {
        for (interface, namespace, folder) in [
            ("eth0", None, "eth0"),
            ("eth0.100", None, "eth0%2e100"),
            ("a@b%c", None, "a%40b%25c"),
            ("\u{e9}0", None, "%c3%a90"),
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
