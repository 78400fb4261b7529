//! A sample of a capture.

use limiter_config::{Direction, places::Places};

use super::{sample::Sample, shape::Packet};
use crate::plan::{capture::Capture, learn::Flows};

/// A sample of a whole capture, and its seconds. Packets of TCP connections are exempt, as `learn` finds them. `each` is
/// called after every packet.
pub fn sample(
    capture: &mut Capture,
    salt: u64,
    places: &Places,
    mut each: impl FnMut(&Capture),
) -> (Sample, f64) {
    let mut sample = Sample::default();
    let mut flows = Flows::default();
    let mut times: Option<(u64, u64)> = None;
    while let Some(packet) = capture.next() {
        each(capture);
        if !packet.is_seen(Direction::In) {
            continue;
        }
        let (first, _) = *times.get_or_insert((packet.time, packet.time));
        times = Some((first, packet.time));
        match Packet::read(&packet.frame, salt, places) {
            None => {}
            Some((read, info)) if read.is_control || flows.is_connection(&info) => {
                sample.add_exempt(1.0);
            }
            Some((read, _)) => sample.add(read, 1.0),
        }
    }
    let (first, last) = times.unwrap_or_default();
    (sample, (last - first) as f64 / 1e9)
}
