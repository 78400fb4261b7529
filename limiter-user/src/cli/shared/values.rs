//! Values on the command line, and messages about wrong ones.

use std::{ops::RangeInclusive, time::Duration};

use limiter_config::{
    Direction, Invalid,
    burst::BYTES,
    names::{self, OUT, direction_of},
    number,
};
pub use limiter_config::{
    lists::{address, prefix},
    number::count,
};
use limiter_kernel::sys::interface;
use rustix::net::{self, AddressFamily, SocketType, netdevice};

use super::{descriptors, interfaces::ALL};

/// Milliseconds of a second.
pub const SECOND: u64 = 1_000;
/// Milliseconds of a minute.
pub const MINUTE: u64 = 60 * SECOND;
/// Milliseconds of a day.
pub const DAY: u64 = 86_400 * SECOND;
/// Milliseconds of a year, as humantime counts it.
pub const YEAR: u64 = 31_557_600 * SECOND;

/// Reads the name of an interface. An alternative one stands for the interface's name, so that outputs, records and files
/// have one name for it.
pub fn interface(text: &str) -> Result<String, Invalid> {
    let name = names::interface(text)?;
    Ok(match &*name {
        ALL => name,
        _ => real_name(&name).unwrap_or(name),
    })
}

/// Returns true if a word names interfaces that exist, or all.
pub fn is_interface(word: &str) -> bool {
    word == ALL
        || word
            .split(',')
            .all(|name| names::interface(name).is_ok() && real_name(name).is_some())
}

/// The name of the interface that `name` stands for; `None` if there is none, or it cannot be asked for.
fn real_name(name: &str) -> Option<String> {
    // IFNAMSIZ in include/uapi/linux/if.h, with the end.
    const LONGEST: usize = 15;
    let (wanted, direction) = direction_of(name);
    let socket = net::socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    if wanted.len() > LONGEST {
        // The same name comes back if there is no such interface.
        return descriptors::early(interface::real_name(name)).filter(|found| found != name);
    }
    let index = netdevice::name_to_index(&socket, wanted).ok()?;
    let found = netdevice::index_to_name(&socket, index).ok()?;
    Some(match direction {
        Direction::In => found,
        Direction::Out => found + OUT,
    })
}

/// A parser of durations within `bounds`, in milliseconds. `example` is one for messages.
pub fn duration(
    bounds: RangeInclusive<u64>,
    example: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    let [least, most] = [*bounds.start(), *bounds.end()].map(Duration::from_millis);
    move |text| {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("a time has a unit: write it as in {example}"));
        }
        let given = humantime::parse_duration(text)
            .map_err(|error| format!("{error}: write one as in {example}"))?;
        if (least..=most).contains(&given) {
            return Ok(given);
        }
        let [least, most] = [least, most].map(humantime::format_duration);
        Err(format!("write {least} to {most}, as in {example}"))
    }
}

/// Reads the size of a file: at least 4 KiB, so that a header and a packet fit.
pub fn file_size(text: &str) -> Result<u64, &'static str> {
    let bytes = number::parse(&text.to_ascii_lowercase(), BYTES).ok();
    let bytes = bytes.filter(|bytes| *bytes >= 4 << 10);
    bytes.ok_or("not a size of at least 4kB: write one as in 100MB")
}
