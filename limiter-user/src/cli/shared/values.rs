//! Values on the command line, and messages about wrong ones.

use std::{ops::RangeInclusive, time::Duration};

use limiter_config::{Invalid, burst::BYTES, names, number};
pub use limiter_config::{
    lists::{address, prefix},
    number::count,
};
use limiter_kernel::sys::interface::real_name;
use tokio::runtime::Builder;

use super::interfaces::ALL;

/// Milliseconds of a second.
pub const SECOND: u64 = 1_000;
/// Milliseconds of a day.
pub const DAY: u64 = 86_400 * SECOND;
/// Milliseconds of a year, as humantime counts it.
pub const YEAR: u64 = 31_557_600 * SECOND;

/// Reads the name of an interface. An alternative one stands for the interface's name, so that outputs, records and files
/// have one name for it.
pub fn interface(text: &str) -> Result<String, Invalid> {
    let name = names::interface(text)?;
    // Without descriptors for a runtime, the name stays as it is, and the command says why it fails.
    let runtime = Builder::new_current_thread().enable_all().build();
    Ok(match runtime {
        Ok(runtime) if name != ALL => runtime.block_on(real_name(&name)),
        _ => name,
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
