//! Packet times of a source: exact while there is room, then less and less exact.

/// Packets that count as arriving at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Arrival time of the first packet, in nanoseconds.
    pub time: u64,
    /// Number of packets.
    pub packets: u64,
}

/// The packets of one source, or of one source to one service, in order of time.
///
/// If all of its groups are taken, packets close together are joined into one group. The group has the time of its
/// first packet. Its other packets arrived at most [`Trace::spread`] later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    groups: Vec<Group>,
    room: usize,
    /// A packet joins the last group if it arrives less than this many nanoseconds after the group's time.
    joined: u64,
    spread: u64,
    packets: u64,
}

impl Trace {
    /// Creates an empty trace with at most `room` groups (at least 2).
    pub fn new(room: usize) -> Self {
        Self {
            groups: Vec::new(),
            room: room.max(2),
            joined: 0,
            spread: 0,
            packets: 0,
        }
    }

    /// Adds `packets` that arrived from `time` on, the last at most `spread` nanoseconds later. A time before the last
    /// group counts as the last group's time.
    pub fn add(&mut self, time: u64, packets: u64, spread: u64) {
        self.packets += packets;
        match self.groups.last_mut() {
            Some(last) if time <= last.time || time - last.time < self.joined => {
                let after = time.saturating_sub(last.time);
                self.spread = self.spread.max(after + spread);
                last.packets += packets;
            }
            _ => {
                self.spread = self.spread.max(spread);
                self.groups.push(Group { time, packets });
                if self.groups.len() > self.room {
                    self.coarsen();
                }
            }
        }
    }

    /// Joins groups that are close together until a quarter of the room is free.
    fn coarsen(&mut self) {
        let (Some(first), Some(last)) = (self.groups.first(), self.groups.last()) else {
            return;
        };
        let mean = (last.time - first.time) / self.room as u64;
        self.joined = self.joined.max(mean / 8).max(1);
        while self.groups.len() > self.room / 4 * 3 && self.groups.len() > 1 {
            self.joined = self.joined.saturating_mul(2);
            self.join();
        }
        self.groups.shrink_to(self.room);
    }

    fn join(&mut self) {
        let before = self.spread;
        let mut joined: Vec<Group> = Vec::with_capacity(self.room + 1);
        for group in &self.groups {
            match joined.last_mut() {
                Some(last) if group.time - last.time < self.joined => {
                    last.packets += group.packets;
                    self.spread = self.spread.max(group.time - last.time + before);
                }
                _ => joined.push(*group),
            }
        }
        self.groups = joined;
    }

    /// The groups, in order of time.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Maximum nanoseconds between a group's time and a packet's arrival; 0: all times are exact.
    pub fn spread(&self) -> u64 {
        self.spread
    }

    /// Number of all packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The maximum number of packets in any interval of `length` nanoseconds.
    pub fn busiest(&self, length: u64) -> u64 {
        let (mut most, mut within, mut first) = (0, 0, 0);
        for group in &self.groups {
            within += group.packets;
            while group.time - self.groups[first].time >= length {
                within -= self.groups[first].packets;
                first += 1;
            }
            most = most.max(within);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::Trace;

    #[test]
    fn trace_is_exact_until_full_and_bounded_afterwards() {
        let mut trace = Trace::new(8);
        (0..8).for_each(|n| trace.add(n * 100, 1, 0));
        assert_eq!((trace.groups().len(), trace.spread()), (8, 0));
        for n in 8..100_000_u64 {
            trace.add(n * 100, 1, 0);
            assert!(trace.groups().len() <= 8);
            assert!(n * 100 - trace.groups().last().unwrap().time <= trace.spread());
        }
        assert_eq!(trace.packets(), 100_000);
        let held: u64 = trace.groups().iter().map(|group| group.packets).sum();
        assert_eq!(held, 100_000);
    }

    #[test]
    fn busiest_returns_most_packets_of_any_interval() {
        let mut trace = Trace::new(100);
        for time in [0, 5, 6, 7, 20, 29, 30] {
            trace.add(time, 2, 0);
        }
        assert_eq!(trace.busiest(1), 2);
        assert_eq!(trace.busiest(10), 8, "0 to 7");
        assert_eq!(trace.busiest(11), 8);
        assert_eq!(trace.busiest(1_000), 14);
        assert_eq!(Trace::new(2).busiest(5), 0);
    }
}
