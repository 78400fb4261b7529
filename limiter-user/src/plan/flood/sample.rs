//! A fair sample of packets in bounded memory.

use fastrand::Rng;

use super::shape::Packet;

/// The most packets of a sample: some 5 MB.
pub const PACKETS_MAX: usize = 1 << 15;

/// A packet of a sample, and the packets that it stands for.
pub type Weighed = (Packet, f64);

/// A sample of packets. Each packet had the same chance, whenever it came, and stands for as many as were left out.
#[derive(Debug)]
pub struct Sample {
    packets: Vec<Weighed>,
    /// One packet in this many is kept.
    one_in: u32,
    most: usize,
    rng: Rng,
    /// Packets that the sample stands for.
    pub all: f64,
    /// Those of them that no limit decides about: of connections, control traffic, and those of the allow list.
    pub exempt: f64,
    /// Those of them that were dropped.
    pub dropped: f64,
}

impl Default for Sample {
    fn default() -> Self {
        Self::new(PACKETS_MAX, Rng::new())
    }
}

impl Sample {
    /// An empty sample of at most so many packets.
    fn new(most: usize, rng: Rng) -> Self {
        Self {
            packets: Vec::new(),
            one_in: 1,
            most,
            rng,
            all: 0.0,
            exempt: 0.0,
            dropped: 0.0,
        }
    }

    /// Adds a packet that limits decide about, and that stands for `weight` packets.
    pub fn add(&mut self, packet: Packet, weight: f64) {
        self.all += weight;
        if self.rng.u32(..self.one_in) != 0 {
            return;
        }
        if self.packets.len() >= self.most {
            self.halve();
        }
        self.packets.push((packet, weight * f64::from(self.one_in)));
    }

    /// Adds packets that no limit decides about.
    pub fn add_exempt(&mut self, weight: f64) {
        self.all += weight;
        self.exempt += weight;
    }

    /// Leaves out every second packet, by chance.
    fn halve(&mut self) {
        let rng = &mut self.rng;
        self.packets.retain(|_| rng.bool());
        for (_, weight) in &mut self.packets {
            *weight *= 2.0;
        }
        self.one_in = self.one_in.saturating_mul(2);
    }

    /// The packets that limits decide about.
    pub fn packets(&self) -> &[Weighed] {
        &self.packets
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::plan::flood::shape::{Field, Shape};

    #[test]
    fn sample_is_bounded_and_stands_for_all_packets_of_all_times() {
        let mut sample = Sample::new(1_000, Rng::with_seed(7));
        for number in 0..200_000_u64 {
            let packet = Packet {
                shape: Shape::NONE.with(Field::Length, number),
                start: [0; 8],
                destination: Ipv4Addr::LOCALHOST.into(),
                is_control: false,
            };
            sample.add(packet, 1.0);
            assert!(sample.packets().len() <= 1_000);
        }
        assert_eq!(sample.all, 200_000.0);
        let of_times = |from: u64, end: u64| -> f64 {
            let packets = sample.packets().iter();
            let chosen = packets
                .filter(|(packet, _)| (from..end).contains(&packet.shape.value(Field::Length)));
            chosen.map(|(_, weight)| weight).sum()
        };
        for begin in [0, 50_000, 100_000, 150_000] {
            let weight = of_times(begin, begin + 50_000);
            assert!((40_000.0..60_000.0).contains(&weight), "{begin}: {weight}");
        }
    }
}
