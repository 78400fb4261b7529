//! Models token bucket and fixed window by the text of the design, in numbers that neither wrap nor overflow.
//!
//! Time is in ticks of 1/256 ns since the clock began.

use limiter_config::{Algorithm, Rate, Unit};

/// Ticks in a nanosecond.
pub const TICKS: i128 = 256;

/// Maximum difference of clocks (2^20 ns). A TAT further ahead of an empty bucket's TAT is from before a clock was set
/// back.
pub(super) const SKEW: i128 = (1 << 20) * TICKS;

/// The most by which a clock may be set back, in ticks (19 hours). A TAT further ahead is of a bucket that was idle for more
/// than 1.14 years, and is full.
pub(super) const BACK: i128 = 1 << 54;

/// The stretch of the configured rate.
pub const WHOLE: i128 = 1 << 16;

/// Bits of the longest packet's length. The factor of a byte leaves room for them.
const LENGTH_BITS: u32 = 20;

/// The cost of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// Every packet costs the same.
    Packet(i128),
    /// The cost depends on the length: `factor / 2^shift` per byte, the sum rounded up.
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
pub struct Quota {
    /// The cost of a packet: ticks, or tokens of a window.
    pub price: Price,
    /// Ticks per token, in units of `2^-shift`; 1 for a window.
    pub token: (i128, u32),
    /// Content of a full bucket: ticks, or tokens of a window.
    pub depth: i128,
    /// Tokens of a full bucket.
    pub burst: i128,
    /// Unit of a token.
    pub unit: Unit,
    /// The window; none for a token bucket.
    pub window: Option<Window>,
    /// Ticks for which a refused source is held; 0: none.
    pub hold: i128,
    /// Ticks by which packets are delayed at most; 0: they are not. Part of `depth`.
    pub pace: i128,
    /// Factor of costs, in parts of 2^16; at least 2^16.
    pub stretch: i128,
}

/// Division of time into fixed windows, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Length.
    pub period: i128,
    /// Added to the clock.
    pub phase: i128,
    /// Tokens that each window grants.
    pub grant: i128,
}

impl Window {
    /// Number of the window at a moment in ticks.
    pub fn number(&self, now: i128) -> i128 {
        (now.div_euclid(TICKS) + self.phase).div_euclid(self.period)
    }
}

/// The state of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Tick at which the bucket is full.
    FullAt(i128),
    /// Tokens left in a window.
    Left {
        /// Number of the window.
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

/// Skips the four reserved values, which are not times.
fn step_over_marks(tick: i128) -> i128 {
    let word = tick.rem_euclid(1 << 64);
    if word < 4 { tick + 4 - word } else { tick }
}

impl Quota {
    /// The quota of a limit, with windows shifted by `phase`, on an interface with frames of at most `frame_max` bytes.
    pub fn new(limit: &limiter_config::Limit, phase: u64, frame_max: u64) -> Self {
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
                hold: 0,
                pace: 0,
                stretch: WHOLE,
            };
        }
        // With a hold, costs and depth are even, because the lowest bit of a TAT is a mark.
        let even = |ticks: i128| ticks + i128::from(limit.hold.is_some()) * (ticks % 2);
        let token = match limit.rate.unit {
            Unit::Packets => (even(divided_up(period * TICKS, amount)), 0),
            Unit::Bytes => byte(period * TICKS * 8, amount),
        };
        let ticks = |time: limiter_config::Time| {
            let time = humantime::parse_duration(&time.to_string()).unwrap();
            i128::try_from(time.as_nanos()).unwrap() * TICKS
        };
        let pace = limit.max_delay.map_or(0, ticks);
        Self {
            price: match limit.rate.unit {
                Unit::Packets => Price::Packet(token.0 * i128::from(limit.cost.unwrap_or(1))),
                Unit::Bytes => Price::Byte {
                    factor: token.0,
                    shift: token.1,
                },
            },
            token,
            depth: even(over_power(token.0 * burst, token.1)) + pace,
            pace,
            burst,
            unit: limit.rate.unit,
            window: None,
            hold: limit.hold.map_or(0, ticks),
            stretch: WHOLE,
        }
    }

    /// Holds a bucket that has refused a packet, unless it has been held and has admitted no packet since: its TAT is
    /// then odd. It is empty when the hold ends.
    pub fn hold(&self, state: &mut State, now: i128) {
        if let State::FullAt(full) = state
            && self.hold > 0
            && *full % 2 == 0
            && *full - now <= self.depth
        {
            *full = step_over_marks(now + self.hold + self.depth) + 1;
        }
    }

    /// Ticks at `now` until a packet leaves that has brought the bucket to `state`: until the bucket without its part for
    /// delays would be full enough. None if the limit does not decide when packets leave.
    pub fn delay(&self, state: State, now: i128) -> Option<i128> {
        match state {
            State::FullAt(full) if self.pace > 0 => {
                Some((full - (self.depth - self.pace) - now).max(0))
            }
            _ => None,
        }
    }

    /// The cost of a packet.
    fn price(&self, length: usize) -> i128 {
        let price = self.price.of(length);
        if self.stretch > WHOLE {
            return over_power(price * self.stretch, 16);
        }
        price + i128::from(self.hold > 0) * (price % 2)
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

    /// Content at `now`: ticks, or tokens of a window.
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

    /// True if a packet of `length` bytes may pass at `now`. Charges nothing. Corrects a bucket that refuses, and is
    /// further ahead than a clock that never goes back allows, to an empty bucket.
    pub fn admits(&self, state: &mut State, now: i128, length: usize) -> bool {
        if self.price(length) <= self.left(*state, now) {
            return true;
        }
        match (&mut *state, self.window) {
            (State::FullAt(full), _) if *full - now > self.depth + self.hold + SKEW => {
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
        let (left, price) = (self.left(*state, now), self.price(length));
        assert!(price <= left, "the bucket cannot admit the packet");
        *state = match (*state, self.window) {
            (State::Left { window, .. }, Some(cut)) => State::Left {
                window: window.max(cut.number(now)),
                tokens: left - price,
            },
            (State::FullAt(full), _) => {
                let full = step_over_marks(full.max(now) + price);
                State::FullAt(full - i128::from(self.hold > 0) * (full % 2))
            }
            (State::Left { .. }, None) => unreachable!("a window's bucket has windows"),
        };
    }

    /// Refunds a charge.
    pub fn refund(&self, state: &mut State, length: usize) {
        let price = self.price(length);
        match state {
            State::FullAt(full) => *full = step_over_marks(*full - price),
            State::Left { tokens, .. } => *tokens = (*tokens + price).min(self.depth),
        }
    }
}

/// Packets or bits, and the nanoseconds of their period.
fn of(rate: &Rate) -> (i128, i128) {
    (rate.amount.into(), rate.period_ns.into())
}

fn per_period(rate: &Rate) -> i128 {
    match rate.unit {
        Unit::Packets => rate.amount.into(),
        Unit::Bytes => i128::from(rate.amount) / 8,
    }
}

/// The tokens of a period. For a token bucket, at least one packet or frame.
fn default_burst(rate: &Rate, windows: bool, frame_max: u64) -> i128 {
    let least = match rate.unit {
        _ if windows => 0,
        Unit::Packets => 1,
        Unit::Bytes => frame_max.into(),
    };
    per_period(rate).max(least)
}

/// The cost of a byte, rounded up, with as many binary places as leave room in 63 bits for the longest packet, and at
/// most 40.
fn byte(ticks: i128, bits: i128) -> (i128, u32) {
    let factor = |shift: u32| divided_up(ticks << shift, bits);
    let fits = |shift: &u32| factor(*shift) < 1 << (63 - LENGTH_BITS);
    let shift = (0..=40).rev().find(fits).unwrap_or(0);
    (factor(shift), shift)
}
