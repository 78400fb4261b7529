//! Attempts to charge a packet to a limit, repeated until the limit has decided.

use super::Environment;

/// Attempts to charge a bucket. If other CPUs win all of them, the packet is refused.
pub const ATTEMPTS: u32 = 8;

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The bucket has enough tokens, and a charge has taken them. For a step: the limit does not refuse the packet.
    Admitted,
    /// The bucket has too few tokens: the limit refuses the packet.
    Refused,
    /// The source has no bucket. A missing bucket counts as full.
    New,
    /// The bucket is on a past quota or too far ahead, or the CPU needs a lease: the caller must refresh it first.
    Stale,
    /// Another CPU was faster: the caller must try again.
    Lost,
    /// The limit refuses the packet, because its source is new: there is no token or no room.
    RefusedNew,
    /// A new source of this budget has found no room. The caller must call `replace`, a separate step, because the stack
    /// is small.
    NoRoom(u32),
}

/// A result that a global function of the kernel program returns as a number.
pub trait Code: Copy {
    /// The number.
    fn to_code(self) -> u32;
    /// The result with this number. 0: the result of a step for a limit that is not there.
    fn from_code(code: u32) -> Self;
}

impl Code for () {
    #[inline(always)]
    fn to_code(self) -> u32 {
        0
    }

    #[inline(always)]
    fn from_code(_: u32) {}
}

impl Code for bool {
    #[inline(always)]
    fn to_code(self) -> u32 {
        self.into()
    }

    #[inline(always)]
    fn from_code(code: u32) -> Self {
        code != 0
    }
}

/// The number of [`Attempt::NoRoom`], without the budget, which has two bits.
const NO_ROOM: u32 = 8;

impl Code for Attempt {
    #[inline(always)]
    fn to_code(self) -> u32 {
        match self {
            Self::Admitted => 0,
            Self::Refused => 1,
            Self::New => 2,
            Self::Stale => 3,
            Self::Lost => 4,
            Self::RefusedNew => 5,
            Self::NoRoom(budget) => NO_ROOM | budget & 3,
        }
    }

    #[inline(always)]
    fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Admitted,
            2 => Self::New,
            3 => Self::Stale,
            4 => Self::Lost,
            5 => Self::RefusedNew,
            _ if code & !3 == NO_ROOM => Self::NoRoom(code & 3),
            _ => Self::Refused,
        }
    }
}

/// One packet and one limit, whose bucket is charged.
pub trait Attempts {
    /// Tries again to charge the bucket.
    fn charge(&mut self) -> Attempt;
    /// Refreshes the bucket.
    fn refresh(&mut self);
    /// Makes the bucket of a new source, and charges it.
    fn add(&mut self) -> Attempt;
    /// [`Self::add`] in the place of a quiet source, by this budget.
    fn replace(&mut self, budget: u32) -> Attempt;
    /// Lets a new source that is refused prove its address. Returns true if it has: then the next attempt admits it.
    fn proves(&mut self) -> bool;
}

/// Repeats attempts until the limit has decided, after the first one, which has had this result. Returns
/// [`Attempt::Admitted`], [`Attempt::Refused`], [`Attempt::RefusedNew`], or [`Attempt::Lost`] if other CPUs have won all
/// attempts.
#[inline(always)]
pub fn settle<E: Environment>(attempts: &mut impl Attempts, first: Attempt) -> Attempt {
    // Apart from the others, so that the compiler knows the ways of the first attempt: it is the only one for most
    // packets.
    if let Some(decided) = decided(attempts, first) {
        return decided;
    }
    let mut made = 1;
    while made < ATTEMPTS.into() {
        let tried = attempts.charge();
        if let Some(decided) = decided(attempts, tried) {
            return decided;
        }
        // Not known to the compiler: the program would be longer by a copy of the loop for each attempt.
        made = E::hidden(made + 1);
    }
    Attempt::Lost
}

/// The decision after an attempt with this result. None if the caller must try again.
#[inline(always)]
fn decided(attempts: &mut impl Attempts, tried: Attempt) -> Option<Attempt> {
    match tried {
        Attempt::New => match add_or_replace(attempts) {
            Attempt::Lost => None,
            Attempt::RefusedNew if attempts.proves() => None,
            added => Some(added),
        },
        Attempt::Stale => {
            attempts.refresh();
            None
        }
        Attempt::Lost => None,
        decided => Some(decided),
    }
}

#[inline(always)]
fn add_or_replace(attempts: &mut impl Attempts) -> Attempt {
    match attempts.add() {
        Attempt::NoRoom(budget) => attempts.replace(budget),
        added => added,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_the_same_after_its_way_as_a_number() {
        let no_room = (0..3).map(Attempt::NoRoom);
        let others = [
            Attempt::Admitted,
            Attempt::Refused,
            Attempt::New,
            Attempt::Stale,
            Attempt::Lost,
            Attempt::RefusedNew,
        ];
        for attempt in no_room.chain(others) {
            assert_eq!(Attempt::from_code(attempt.to_code()), attempt);
        }
        for number in [6, 12, u32::MAX] {
            assert_eq!(Attempt::from_code(number), Attempt::Refused, "{number}");
        }
    }
}
