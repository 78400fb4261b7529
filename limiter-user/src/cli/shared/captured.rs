//! Notes about a capture that was read to its end: all that limits did not see as it is in the file.

use super::{note, output::exit_with};
use crate::{
    plan::capture::Capture,
    show::units::{counted, grouped, whole},
};

/// Prints the notes. An incomplete capture makes the exit status 1. Fails if none of the packets can be read.
pub fn note_capture(capture: &Capture) -> anyhow::Result<()> {
    let name = &capture.name;
    let unread: u64 = capture.unread.values().sum();
    if unread > 0 && unread == capture.packets {
        let why = capture.unread.keys().next().map(|why| why.text());
        anyhow::bail!(
            "{name}: none of {} can be read: {}",
            counted(unread, "packet"),
            why.unwrap_or_default()
        );
    }
    for (why, packets) in &capture.unread {
        note(&format!(
            "{name}: left out {}: {}",
            counted(*packets, "packet"),
            why.text()
        ));
    }
    let times = capture.times();
    if times.long_gaps > 0 {
        note(&format!(
            "{name}: {} of more than a year between packets: each counts as a year, after which all buckets are full",
            counted(times.long_gaps, "gap")
        ));
    }
    if times.earlier > 0 {
        note(&format!(
            "{name}: {} a time before the packet in front, by up to {}; they arrive together with it: sort the capture (reordercap IN OUT)",
            match times.earlier {
                1 => "1 packet has".to_owned(),
                packets => format!("{} packets have", grouped(packets)),
            },
            whole(times.earliest_by as f64 / 1e9)
        ));
    }
    if let Some(how) = capture.cut {
        exit_with(1);
        note(&format!(
            "{name} is {how} after packet {}: the results cover the packets before that",
            capture.packets
        ));
    }
    Ok(())
}
