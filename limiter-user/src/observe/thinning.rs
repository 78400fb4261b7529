//! Chooses the share of packets that a watch samples, so that it loses few of them.

/// Events of a window below which more packets are sampled.
const FEW: u64 = 100;
/// The rarest sample: one packet in this many.
const RAREST: f64 = (1 << 20) as f64;

/// The sample of a watch.
#[derive(Debug)]
pub struct Thinning {
    /// One packet in this many is in the sample.
    pub one_in: f64,
}

impl Default for Thinning {
    /// Every packet is in the sample.
    fn default() -> Self {
        Self { one_in: 1.0 }
    }
}

impl Thinning {
    /// Chooses the sample of the next window, after one with so many `reported` and `lost` packets of the sample. Returns it
    /// if it is another one.
    pub fn next(&mut self, reported: u64, lost: u64) -> Option<f64> {
        let before = self.one_in;
        if lost > 0 {
            let excess = lost as f64 / reported.max(1) as f64;
            self.one_in = (before * (1.5 * (1.0 + excess))).min(RAREST);
        } else if reported < FEW {
            self.one_in = (before / 2.0).max(1.0);
        }
        (self.one_in != before).then_some(self.one_in)
    }
}
