//! The largest configuration works: 32 limits and 100,000 prefixes, attached by the command.

use std::{
    collections::BTreeSet,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use aya::maps::{MapData, MapType};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use limiter_common::{
    abi::{
        CLOCK_PACKET,
        rules::{ON_ALLOW, ON_DENY},
    },
    policy::verdict::Reason,
};
use limiter_kernel::{
    Attachment,
    program::maps::{LIST_MAPS, LISTED, MAPS},
    sys::memory,
};
use limiter_tests::{
    command::binary,
    engine::Kernel,
    files::{Folder, at_driver},
    hosts::Hosts,
    largest::{self, LIMITS},
    need_kernel, number,
    packet::Frame,
    settings,
};

const PREFIXES: usize = 100_000;
/// The lists, to which the prefixes are added in turn.
const LISTS: [&str; 4] = ["allow", "deny", "gold", "silver"];

/// Prefixes of both families. None is within another one.
fn prefixes() -> Vec<IpNet> {
    let prefix = |i: usize| {
        let i = i as u32;
        if i.is_multiple_of(3) {
            let address = 0x2001_0db8_0000_0000_u128 << 64 | u128::from(i) << 64;
            IpNet::from(Ipv6Net::new(address.into(), 64).unwrap())
        } else {
            IpNet::from(Ipv4Net::new((0x0a00_0000 + (i << 6)).into(), 28).unwrap())
        }
    };
    (0..PREFIXES).map(prefix).collect()
}

fn text(prefixes: &[IpNet]) -> String {
    let list = |(number, name): (usize, &str)| {
        let on_it = prefixes.iter().skip(number).step_by(LISTS.len());
        let on_it: Vec<_> = on_it.map(|prefix| format!("\"{prefix}\"")).collect();
        format!("{name} = [{}]\n", on_it.join(", "))
    };
    let lists: String = LISTS.into_iter().enumerate().map(list).collect();
    largest::file(&lists)
}

/// Possible verdicts on packets of a source within the prefix with this number.
fn expected(number: usize) -> &'static [Reason] {
    match LISTS[number % LISTS.len()] {
        "allow" => &[Reason::Allowed],
        "deny" => &[Reason::Deny],
        "gold" => &[Reason::Admitted, Reason::Unlimited],
        _ => &[Reason::Unlimited],
    }
}

/// The verifier refuses a program after a million instructions (since Linux 5.2).
#[test]
fn largest_configuration_loads_and_finds_the_right_list() {
    need_kernel!();
    let prefixes = prefixes();
    let kernel = Kernel::with_clock(&settings(&text(&prefixes)), CLOCK_PACKET);
    if let Some(verified) = limiter_tests::verified_instructions(&kernel.program) {
        println!("32 limits: {verified} instructions verified");
        assert!((1_000..500_000).contains(&verified), "{verified}");
    }
    let v4 = |address: u32| IpAddr::V4(address.into());
    let v6 = |address: u128| IpAddr::V6(address.into());
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..2_000 {
        let number = rng.usize(0..PREFIXES);
        let within: IpAddr = match prefixes[number] {
            IpNet::V4(net) => v4(u32::from(net.addr()) | rng.u32(0..16)),
            IpNet::V6(net) => v6(u128::from(net.addr()) | u128::from(rng.u64(..))),
        };
        let reason = kernel.offer(&Frame::from(within).bytes(), 1_000_000_000_000);
        assert!(
            expected(number).contains(&reason),
            "{within} of {}: {reason:?}",
            prefixes[number]
        );
        let beside: IpAddr = match prefixes[number] {
            // The sixteen addresses after a prefix are on no list.
            IpNet::V4(net) => v4(u32::from(net.addr()) + 16 + rng.u32(0..16)),
            IpNet::V6(net) => v6(u128::from(net.addr()) ^ (1 << 100)),
        };
        let reason = kernel.offer(&Frame::from(beside).bytes(), 1_000_000_000_000);
        assert_eq!(reason, Reason::Admitted, "{beside}");
    }
}

#[test]
fn largest_configuration_attaches_and_reports_the_kernels_memory() {
    need_kernel!();
    let prefixes = prefixes();
    let folder = Folder::new();
    let path = &folder.write("large.toml", at_driver(text(&prefixes)));
    let hosts = Hosts::new();
    let check = hosts.limiter(&["config", "check", path]);
    check.expect(0);
    let counted = format!("{LIMITS} limits, 100,000 prefixes");
    assert!(check.stdout.contains(&counted), "{check:?}");
    let start = Instant::now();
    hosts
        .limiter(&["attach", "eth0", "--config", path])
        .expect(0);
    println!("attached in {:?}", start.elapsed());

    let open = || async { Attachment::open("eth0").await };
    let attachment = hosts.server.namespace.block_on(open).unwrap().unwrap();
    let folder = hosts.pins();
    let generation = fs::read_dir(&folder).unwrap().flatten();
    let generation = generation
        .map(|entry| entry.path())
        .find(|path| path.is_dir());
    // The pinned maps of the program have names in capitals.
    let pinned: BTreeSet<_> = [folder, generation.unwrap()]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap().flatten())
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            !name.contains(char::is_lowercase)
        })
        .collect();
    let maps: Vec<_> = pinned
        .iter()
        .map(|path| MapData::from_pin(path).unwrap())
        .collect();
    assert_eq!(maps.len(), MAPS.len() + LIST_MAPS.len(), "{pinned:?}");
    // The trie of banned prefixes is empty.
    let sum = memory::of_maps(maps.iter().filter(|map| !is_trie(map)));
    let shown = number(&hosts.status()["sources"]["memory_bytes"]);
    println!("{shown} bytes in {} maps", maps.len());
    assert_eq!(shown, sum);
    // Two families of 100,000 prefixes with gaps: 12 and 20 bytes for each of two ranges, and the prefix itself.
    let lists = maps
        .iter()
        .find(|map| map.info().unwrap().name_as_str() == Some(LISTED));
    let bytes = memory::of_maps(lists);
    assert!(bytes < (PREFIXES * (2 * 20 + 24)) as u64, "{bytes}");

    for number in (0..PREFIXES).step_by(997) {
        let listed = attachment.lists.of(prefixes[number].addr()).unwrap().lists;
        let action = match LISTS[number % LISTS.len()] {
            "allow" => ON_ALLOW,
            "deny" => ON_DENY,
            _ => 0,
        };
        assert_eq!(listed & (ON_ALLOW | ON_DENY), action, "{number}");
        assert_ne!(listed, 0, "{number}");
    }
    hosts.run("detach eth0");
}

fn is_trie(map: &MapData) -> bool {
    map.info().unwrap().map_type().unwrap() == MapType::LpmTrie
}

/// A memory cgroup of its own.
struct Group(PathBuf);

impl Group {
    /// `None` if this machine has no memory cgroups for tests.
    fn new() -> Option<Self> {
        let name = format!("limiter-large-{}", std::process::id());
        let both = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].into_iter();
        both.map(|root| Path::new(root).join(&name))
            .find_map(|group| {
                fs::create_dir(&group).ok()?;
                let made = Self(group);
                made.used().map(|_| made)
            })
    }

    /// Bytes of kernel memory that are charged to it.
    fn used(&self) -> Option<u64> {
        if let Ok(bytes) = fs::read_to_string(self.0.join("memory.kmem.usage_in_bytes")) {
            return bytes.trim().parse().ok();
        }
        let all = fs::read_to_string(self.0.join("memory.stat")).ok()?;
        let mut lines = all.lines();
        lines
            .find_map(|line| line.strip_prefix("kernel "))?
            .parse()
            .ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The maps belong to the memory cgroup of the command that attached. The kernel also charges for the program, pins and links.
#[test]
fn status_shows_the_kernel_memory_of_long_lists() {
    need_kernel!();
    let Some(group) = Group::new() else {
        eprintln!("no memory cgroups: nothing to test");
        return;
    };
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let deny: Vec<_> = prefixes()
        .iter()
        .map(|prefix| format!("\"{prefix}\""))
        .collect();
    let limit = "[[limit]]\nname = \"one\"\nrate = 5\n";
    let measured = |list: &str| {
        let path = folder.write(
            "list.toml",
            at_driver(format!("[lists]\ndeny = [{list}]\n{limit}")),
        );
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        let mut attach = Command::new("sh");
        attach.args(["-c", script]).arg(&group.0).arg(binary());
        attach.args(["attach", "eth0", "--config", &path]);
        let done = hosts
            .server
            .namespace
            .run(|| attach.output())
            .unwrap()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let bytes = [
            number(&hosts.status()["sources"]["memory_bytes"]),
            group.used().unwrap(),
        ];
        hosts.run("detach eth0");
        bytes
    };
    let [few, few_used] = measured("\"192.0.2.0/24\"");
    let [many, many_used] = measured(&deny.join(", "));
    let (shown, used) = (many - few, many_used.saturating_sub(few_used));
    println!(
        "{PREFIXES} prefixes: {shown} bytes shown, {used} charged; few: {few} shown, {few_used} charged"
    );
    assert!(
        shown * 95 / 100 <= used && used <= shown * 120 / 100,
        "{shown} shown, {used} used"
    );
}
