//! Token bucket and fixed window, from the design's text, in numbers that neither wrap nor overflow.
//!
//! Time is in ticks of 1/256 ns since the clock began.

use limiter_user::config::{self, Algorithm, Rate, Unit};

/// Ticks in a nanosecond.
pub const TICKS: i128 = 256;

/// Further ahead than an empty bucket by more than this, a word is the work of a clock that was set
/// back: 2^20 ns.
pub(super) const SKEW: i128 = (1 << 20) * TICKS;

/// No packet is longer, for which a byte's factor leaves room.
const LENGTH_BITS: u32 = 20;

/// What a packet costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// The same for each.
    Packet(i128),
    /// By its length: `factor / 2^shift` for a byte, the sum rounded up.
    Byte {
        /// Numerator.
        factor: i128,
        /// Exponent of the denominator.
        shift: u32,
    },
}

impl Price {
    fn of(self, length: usize) -> i128 {
        match self {
            Self::Packet(price) => price,
            Self::Byte { factor, shift } => over_power(factor * length as i128, shift),
        }
    }
}

/// Rate, burst and cost of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What a packet costs: ticks, or tokens of a window.
    pub price: Price,
    /// Ticks (`2^-shift` of one) that a token is worth; 1 for a window.
    pub token: (i128, u32),
    /// What a full bucket holds: ticks, or tokens of a window.
    pub depth: i128,
    /// Tokens of a full bucket.
    pub burst: i128,
    /// What a token is.
    pub unit: Unit,
    /// Nothing for a token bucket.
    pub window: Option<Window>,
}

/// How a fixed window cuts time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Length.
    pub period: i128,
    /// Added to the clock.
    pub phase: i128,
    /// Tokens that each brings.
    pub grant: i128,
}

impl Window {
    /// Number of the window at a moment in ticks.
    pub fn number(&self, now: i128) -> i128 {
        (now.div_euclid(TICKS) + self.phase).div_euclid(self.period)
    }
}

/// A bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// When it will be full, in ticks.
    FullAt(i128),
    /// What was left in a window.
    Left {
        /// Its number.
        window: i128,
        /// Tokens.
        tokens: i128,
    },
}

/// `value / 2^shift`, rounded up.
pub fn over_power(value: i128, shift: u32) -> i128 {
    divided_up(value, 1 << shift)
}

/// `numerator / denominator`, rounded up; both positive.
pub fn divided_up(numerator: i128, denominator: i128) -> i128 {
    (numerator + denominator - 1) / denominator
}

/// Four words of a bucket are not times, and are stepped over.
fn step_over_marks(tick: i128) -> i128 {
    let word = tick.rem_euclid(1 << 64);
    if word < 4 { tick + 4 - word } else { tick }
}

impl Terms {
    /// Those of a limit, whose windows are shifted by `phase`, on an interface with frames of `frame_max`
    /// bytes at most.
    pub fn new(limit: &config::Limit, phase: u64, frame_max: u64) -> Self {
        let windows = limit.algorithm == Algorithm::FixedWindow;
        let burst = limit.burst.map_or_else(
            || default_burst(&limit.rate, windows, frame_max),
            |burst| burst.tokens.into(),
        );
        let (amount, period) = of(&limit.rate);
        if windows {
            return Self {
                price: match (limit.rate.unit, limit.cost) {
                    (Unit::Bytes, _) => Price::Byte {
                        factor: 1,
                        shift: 0,
                    },
                    (Unit::Packets, cost) => Price::Packet(cost.unwrap_or(1).into()),
                },
                token: (1, 0),
                depth: burst,
                burst,
                unit: limit.rate.unit,
                window: Some(Window {
                    period,
                    phase: phase.into(),
                    grant: per_period(&limit.rate),
                }),
            };
        }
        let token = match limit.rate.unit {
            Unit::Packets => (divided_up(period * TICKS, amount), 0),
            Unit::Bytes => byte(period * TICKS * 8, amount),
        };
        Self {
            price: match limit.rate.unit {
                Unit::Packets => Price::Packet(token.0 * i128::from(limit.cost.unwrap_or(1))),
                Unit::Bytes => Price::Byte {
                    factor: token.0,
                    shift: token.1,
                },
            },
            token,
            depth: over_power(token.0 * burst, token.1),
            burst,
            unit: limit.rate.unit,
            window: None,
        }
    }

    /// A bucket that is full at `now`.
    pub fn full(&self, now: i128) -> State {
        match self.window {
            None => State::FullAt(step_over_marks(now)),
            Some(window) => State::Left {
                window: window.number(now),
                tokens: self.depth,
            },
        }
    }

    /// What is left at `now`: ticks, or tokens of a window.
    pub fn left(&self, state: State, now: i128) -> i128 {
        match (state, self.window) {
            (State::FullAt(full), _) => self.depth - (full - now).clamp(0, self.depth),
            (State::Left { window, tokens }, Some(cut)) => {
                let later = (cut.number(now) - window).max(0);
                (tokens + cut.grant * later).min(self.depth)
            }
            (State::Left { .. }, None) => unreachable!("a window's bucket has windows"),
        }
    }

    /// Whether a packet of `length` bytes may pass at `now`. Nothing is charged; but where it may not,
    /// and the bucket is further ahead than a clock that only goes forwards can have brought it, then
    /// it is empty from now on.
    pub fn admits(&self, state: &mut State, now: i128, length: usize) -> bool {
        if self.price.of(length) <= self.left(*state, now) {
            return true;
        }
        match (&mut *state, self.window) {
            (State::FullAt(full), _) if *full - now > self.depth + SKEW => {
                *full = step_over_marks(now + self.depth);
            }
            (State::Left { window, .. }, Some(cut)) if *window - cut.number(now) > 1 => {
                *window = cut.number(now);
            }
            _ => {}
        }
        false
    }

    /// Takes the packet's cost.
    pub fn charge(&self, state: &mut State, now: i128, length: usize) {
        let (left, price) = (self.left(*state, now), self.price.of(length));
        assert!(price <= left, "only what is admitted is charged");
        *state = match (*state, self.window) {
            (State::Left { window, .. }, Some(cut)) => State::Left {
                window: window.max(cut.number(now)),
                tokens: left - price,
            },
            (State::FullAt(full), _) => State::FullAt(step_over_marks(full.max(now) + price)),
            (State::Left { .. }, None) => unreachable!("a window's bucket has windows"),
        };
    }

    /// Takes a charge back.
    pub fn refund(&self, state: &mut State, length: usize) {
        let price = self.price.of(length);
        match state {
            State::FullAt(full) => *full = step_over_marks(*full - price),
            State::Left { tokens, .. } => *tokens = (*tokens + price).min(self.depth),
        }
    }
}

/// Packets or bits, and the nanoseconds in which so many come.
fn of(rate: &Rate) -> (i128, i128) {
    (rate.amount.into(), rate.period_ns.into())
}

/// Tokens that a period brings.
fn per_period(rate: &Rate) -> i128 {
    match rate.unit {
        Unit::Packets => rate.amount.into(),
        Unit::Bytes => i128::from(rate.amount) / 8,
    }
}

/// What the rate gives in a second, or in a window; for a token bucket at least one packet or frame.
fn default_burst(rate: &Rate, windows: bool, frame_max: u64) -> i128 {
    if windows {
        return per_period(rate);
    }
    let (amount, period) = of(rate);
    let per_second = amount * 1_000_000_000 / period;
    match rate.unit {
        Unit::Packets => per_second.max(1),
        Unit::Bytes => (per_second / 8).max(frame_max.into()),
    }
}

/// What a byte costs, rounded up, with as many binary places as leave room in 63 bits for the longest
/// packet, and at most 40.
fn byte(ticks: i128, bits: i128) -> (i128, u32) {
    let factor = |shift: u32| divided_up(ticks << shift, bits);
    let fits = |shift: &u32| factor(*shift) < 1 << (63 - LENGTH_BITS);
    let shift = (0..=40).rev().find(fits).unwrap_or(0);
    (factor(shift), shift)
}
