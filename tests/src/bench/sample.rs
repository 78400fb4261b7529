//! Computes statistics of repeated measurements.

use serde::{Deserialize, Serialize};

/// A figure, such as nanoseconds a packet, over all rounds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Sample {
    /// Statistics of the rounds' figures; none without rounds.
    pub fn of(mut rounds: Vec<f64>) -> Option<Self> {
        rounds.sort_by(f64::total_cmp);
        let middle = rounds.len() / 2;
        let above = *rounds.get(middle)?;
        let median = if rounds.len() % 2 == 1 {
            above
        } else {
            (above + rounds[middle - 1]) / 2.0
        };
        Some(Self {
            median,
            min: *rounds.first()?,
            max: *rounds.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let median = |rounds: &[f64]| Sample::of(rounds.to_vec()).map(|sample| sample.median);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
