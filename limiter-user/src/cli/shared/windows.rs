//! The windows of a watch, after which its sample is chosen anew.

use std::time::{Duration, Instant};

/// The time between two choices of the sample, unless packets of it are lost. In a flood of made-up sources, more of the
/// reported packets had passed than of the lost ones.
const WINDOW: Duration = Duration::from_millis(200);

/// The moments at which a window ends.
#[derive(Debug)]
pub struct Windows {
    last: Instant,
    /// Packets of the sample that were lost until then.
    lost: u64,
}

impl Windows {
    /// Begins with a window.
    pub fn new(now: Instant) -> Self {
        Self { last: now, lost: 0 }
    }

    /// Returns the packets that were lost in the window that ends now, if one does. `lost`: all so far.
    pub fn end(&mut self, now: Instant, lost: u64) -> Option<u64> {
        if now.saturating_duration_since(self.last) < WINDOW && lost == self.lost {
            return None;
        }
        Some(self.end_now(now, lost))
    }

    /// [`Self::end`], although the window is not over.
    pub fn end_now(&mut self, now: Instant, lost: u64) -> u64 {
        let of_window = lost.wrapping_sub(self.lost);
        (self.last, self.lost) = (now, lost);
        of_window
    }
}
