//! The picture of ordinary traffic: shapes of packets, and their rate.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::{
    sample::Sample,
    shape::{Shape, hash},
};

/// The most packets of a kept picture: a file of at most some 3 MB.
pub const KEPT_MAX: usize = 1 << 14;
/// The version of the picture's form.
const VERSION: u32 = 2;
/// Bytes whose hash shows that this build hashes as the one that made the picture.
const PROBE: &[u8] = b"limiter";

/// Ordinary traffic. It has no address, and no byte of a payload: networks, and hashes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    version: u32,
    /// The salt of the payload's hashes.
    pub salt: u64,
    probe: u64,
    /// Packets per second, of all.
    pub packets_per_second: f64,
    /// Those of them that limits decide about.
    pub limited_per_second: f64,
    /// Seconds of traffic that the picture was made from.
    pub seconds: f64,
    /// A fair sample of the packets that limits decide about.
    pub shapes: Vec<Shape>,
}

impl Picture {
    /// An empty picture.
    pub fn new(salt: u64) -> Self {
        Self {
            version: VERSION,
            salt,
            probe: hash(PROBE, salt),
            packets_per_second: 0.0,
            limited_per_second: 0.0,
            seconds: 0.0,
            shapes: Vec::new(),
        }
    }

    /// The picture of a sample of so many seconds, at most `most` packets of it.
    pub fn of_sample(salt: u64, sample: &Sample, seconds: f64, most: usize) -> Self {
        let seconds = seconds.max(1e-3);
        // Packets that stand for more have a greater chance.
        let heaviest = sample.packets().iter().map(|(_, weight)| *weight);
        let heaviest = heaviest.fold(f64::MIN_POSITIVE, f64::max);
        let mut rng = Rng::new();
        let chosen = sample.packets().iter();
        let chosen = chosen.filter(|(_, weight)| rng.f64() * heaviest < *weight);
        let mut shapes: Vec<_> = chosen.map(|(packet, _)| packet.shape).collect();
        thin(&mut shapes, most, &mut rng);
        Self {
            packets_per_second: sample.all / seconds,
            limited_per_second: (sample.all - sample.exempt) / seconds,
            seconds,
            shapes,
            ..Self::new(salt)
        }
    }

    /// True if this build can compare packets with the picture.
    pub fn is_usable(&self) -> bool {
        let rates = [self.packets_per_second, self.limited_per_second];
        self.version == VERSION
            && self.probe == hash(PROBE, self.salt)
            && self.shapes.len() <= KEPT_MAX
            && self.seconds > 0.0
            && rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0)
    }

    /// The picture with newer traffic of the same salt. An old picture weighs as much as the newest `memory` of it, in
    /// seconds: so ordinary traffic may change.
    #[must_use]
    pub fn with(&self, newer: &Self, memory: f64) -> Self {
        let old = self.seconds.min(memory);
        let share = newer.seconds / (old + newer.seconds);
        let mean = |before: f64, now: f64| before + share * (now - before);
        let limited = mean(self.limited_per_second, newer.limited_per_second);
        let of_newer = share * newer.limited_per_second / limited.max(f64::MIN_POSITIVE);
        let shapes = merged([&self.shapes, &newer.shapes], of_newer);
        Self {
            packets_per_second: mean(self.packets_per_second, newer.packets_per_second),
            limited_per_second: limited,
            seconds: old + newer.seconds,
            shapes,
            ..Self::new(self.salt)
        }
    }
}

/// Packets of an old picture and a newer one, as many as can be, of which this share is of the newer.
fn merged([old, newer]: [&[Shape]; 2], share: f64) -> Vec<Shape> {
    let shares = [(old, 1.0 - share), (newer, share)];
    let shares = shares.into_iter().filter(|(shapes, _)| !shapes.is_empty());
    let sum: f64 = shares.clone().map(|(_, share)| share).sum();
    let sizes = shares
        .clone()
        .map(|(shapes, share)| shapes.len() as f64 * sum / share.max(1e-9));
    let size = sizes.fold(KEPT_MAX as f64, f64::min);
    let mut rng = Rng::new();
    let mut all = Vec::new();
    for (shapes, share) in shares {
        let mut shapes = shapes.to_vec();
        thin(&mut shapes, whole(size * share / sum), &mut rng);
        all.extend(shapes);
    }
    all
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most KEPT_MAX, and not negative"
)]
fn whole(number: f64) -> usize {
    number as usize
}

/// Keeps at most `most` of them, by chance.
fn thin(shapes: &mut Vec<Shape>, most: usize, rng: &mut Rng) {
    if shapes.len() > most {
        rng.shuffle(shapes);
        shapes.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::flood::shape::Field;

    fn picture(length: u64, count: usize, rate: f64, seconds: f64) -> Picture {
        Picture {
            packets_per_second: rate,
            limited_per_second: rate,
            seconds,
            shapes: vec![Shape::NONE.with(Field::Length, length); count],
            ..Picture::new(7)
        }
    }

    fn of_length(picture: &Picture, length: u64) -> usize {
        let shapes = picture.shapes.iter();
        shapes
            .filter(|shape| shape.value(Field::Length) == length)
            .count()
    }

    #[test]
    fn pictures_are_merged_by_their_packets_and_stay_bounded() {
        let merged = picture(1, 1_000, 100.0, 10.0).with(&picture(2, 3_000, 300.0, 10.0), 1e6);
        assert_eq!(merged.packets_per_second, 200.0);
        assert_eq!(
            (of_length(&merged, 1), of_length(&merged, 2)),
            (1_000, 3_000)
        );
        let full = picture(1, KEPT_MAX, 100.0, 10.0).with(&picture(2, KEPT_MAX, 100.0, 10.0), 1e6);
        assert_eq!(
            (of_length(&full, 1), of_length(&full, 2)),
            (KEPT_MAX / 2, KEPT_MAX / 2)
        );
        assert!(full.is_usable());
    }

    #[test]
    fn old_traffic_is_forgotten_and_an_empty_picture_takes_all() {
        let mut merged = picture(1, 1_000, 100.0, 10.0);
        for _ in 0..40 {
            merged = merged.with(&picture(2, 1_000, 100.0, 10.0), 50.0);
        }
        assert!(of_length(&merged, 1) < 10, "{}", of_length(&merged, 1));
        assert!(of_length(&merged, 2) > 900, "{}", of_length(&merged, 2));
        let first = picture(1, 0, 0.0, 10.0).with(&picture(2, 700, 70.0, 10.0), 50.0);
        assert_eq!(of_length(&first, 2), 700);
        let quiet = first.with(&picture(1, 0, 0.0, 10.0), 50.0);
        assert_eq!(of_length(&quiet, 2), 700);
    }

    #[test]
    fn picture_of_another_build_or_with_wrong_numbers_is_not_used() {
        let good = picture(1, 10, 100.0, 10.0);
        assert!(good.is_usable());
        let wrong = [
            Picture {
                version: 1,
                ..good.clone()
            },
            Picture {
                probe: 1,
                ..good.clone()
            },
            Picture {
                limited_per_second: f64::NAN,
                ..good.clone()
            },
            picture(1, KEPT_MAX + 1, 100.0, 10.0),
        ];
        for picture in wrong {
            assert!(!picture.is_usable());
        }
    }
}
