//! The change of the bans on an interface that brings them to the wanted ones.

use std::{collections::BTreeSet, time::Instant};

use ipnet::IpNet;
use limiter_config::bans::{Edit, Own, OwnBan, Wish};

use crate::{
    host::{Host, Present},
    source::Wanted,
};

/// Bans per change, so that other commands need not wait long for the attachment's lock.
const AT_ONCE: usize = 5_000;

/// Milliseconds by which the end of a ban may differ from that of its decision: CrowdSec tells whole seconds from an unknown
/// moment of its answer.
const NEAR: u64 = 3_000;

/// True if the end of a ban is near that of its decision.
pub fn is_near(left: u64, wanted: u64) -> bool {
    left.abs_diff(wanted) < NEAR
}

/// True if the end of a list's ban may stay. It may be early by half of the time: each round makes it later. It may not be
/// late.
pub fn may_stay(left: u64, wanted: u64) -> bool {
    wanted.saturating_sub(left) < (wanted / 2).max(2_000) && left.saturating_sub(wanted) < NEAR
}

/// The change from a feed's `own` bans to the `wanted` ones. A ban is renewed unless its end `is_right`: the
/// milliseconds that are left of it, and that are wanted. `throttled`: those of the wanted bans that throttle.
pub fn difference(
    own: &Own,
    wanted: &Wanted,
    throttled: &BTreeSet<IpNet>,
    is_right: impl Fn(u64, u64) -> bool,
) -> Edit {
    let now = Instant::now();
    let left = |ends: Option<Instant>| {
        let left = ends.map(|ends| ends.saturating_duration_since(now).as_millis());
        left.and_then(|left| left.try_into().ok())
            .unwrap_or(u64::MAX)
    };
    let add = wanted.iter().filter_map(|(prefix, wanted)| {
        let ban = OwnBan {
            left: left(wanted.ends),
            is_throttle: throttled.contains(prefix),
        };
        let stays = own
            .get(prefix)
            .is_some_and(|own| is_right(own.left, ban.left) && own.is_throttle == ban.is_throttle);
        (!stays).then(|| Wish {
            prefix: *prefix,
            ban,
            reason: wanted.reason.clone(),
        })
    });
    let remove = own.keys().filter(|prefix| !wanted.contains_key(prefix));
    Edit {
        add: add.collect(),
        remove: remove.copied().collect(),
    }
}

/// The size of a change on an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Name of the interface.
    pub interface: String,
    /// Bans that are added.
    pub added: usize,
    /// Bans that get another end.
    pub renewed: usize,
    /// Bans that are removed.
    pub removed: usize,
}

impl Size {
    /// Returns true if bans begin or end.
    pub fn is_worth_a_line(&self) -> bool {
        self.added + self.removed > 0
    }
}

/// Divides the `wanted` bans into those that there is room for, `most`, and the prefixes of the others. Bans in `before`
/// get room first, then those in force (`own`), then the lowest prefixes.
pub fn fitting(
    wanted: &Wanted,
    own: &Own,
    most: usize,
    before: &BTreeSet<IpNet>,
) -> (Wanted, Vec<IpNet>) {
    let mut order: Vec<_> = wanted.keys().copied().collect();
    order.sort_by_key(|prefix| (!before.contains(prefix), !own.contains_key(prefix)));
    let left_out = order.split_off(most.min(order.len()));
    let fit = order
        .into_iter()
        .filter_map(|prefix| Some((prefix, wanted.get(&prefix)?.clone())));
    (fit.collect(), left_out)
}

/// The change that brings a feed's bans on an interface to the `wanted` ones, and its size. `source`: its name.
/// `is_right`: see [`difference`].
/// Fails if the room is too small.
pub fn plan(
    interface: &str,
    Present { own, room, .. }: &Present,
    (wanted, throttled): (&Wanted, &BTreeSet<IpNet>),
    source: &str,
    is_right: impl Fn(u64, u64) -> bool,
) -> Result<(Edit, Size), String> {
    let edit = difference(own, wanted, throttled, is_right);
    let new = edit
        .add
        .iter()
        .filter(|wish| !own.contains_key(&wish.prefix));
    let added = new.count();
    let size = Size {
        interface: interface.to_owned(),
        added,
        renewed: edit.add.len() - added,
        removed: edit.remove.len(),
    };
    if added as u64 > edit.remove.len() as u64 + room {
        return Err(format!(
            "{interface} has room for {room} bans more of feeds, and {} has {}: attach again with a larger --max-bans (a part is kept for `ban`, fail2ban and a fleet), or use a shorter list",
            source,
            wanted.len()
        ));
    }
    Ok((edit, size))
}

/// Changes the bans on an interface, a part at a time.
pub async fn change(host: &mut impl Host, interface: &str, mut edit: Edit) -> Result<(), String> {
    while !edit.is_empty() {
        let Edit { add, remove } = &mut edit;
        let part = Edit {
            add: add.split_off(add.len().saturating_sub(AT_ONCE)),
            remove: remove.split_off(remove.len().saturating_sub(AT_ONCE)),
        };
        host.change(interface, part).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WantedBan;

    #[test]
    fn ends_follow_decisions_and_lists_are_renewed_early_enough() {
        let hour = 3_600_000;
        for (left, wanted, near, may) in [
            (hour, hour, true, true),
            (hour - 2_000, hour, true, true),
            (hour - 4_000, hour, false, true),
            (hour / 2 + 1, hour, false, true),
            (hour / 2, hour, false, false),
            (hour + 2_000, hour, true, true),
            // The longer of two decisions was deleted.
            (hour + hour / 3, hour, false, false),
            (u64::MAX, hour, false, false),
            (u64::MAX, u64::MAX, true, true),
            (hour, u64::MAX, false, false),
        ] {
            let found = (is_near(left, wanted), may_stay(left, wanted));
            assert_eq!(found, (near, may), "{left} {wanted}");
        }
    }

    #[test]
    fn short_room_is_for_local_decisions_then_for_bans_in_force() {
        let net = |number: u8| IpNet::from(std::net::IpAddr::from([192, 0, 2, number]));
        let wanted: Wanted = (1..=9)
            .map(|number| (net(number), WantedBan::default()))
            .collect();
        // 8 and 9 are in force, 5 is decided here.
        let ban = OwnBan {
            left: 1,
            is_throttle: false,
        };
        let own: Own = [8, 9].map(|number| (net(number), ban)).into();
        let local = BTreeSet::from([net(5)]);
        for (most, expected) in [
            (0, &[][..]),
            (1, &[5]),
            (3, &[5, 8, 9]),
            (4, &[1, 5, 8, 9]),
            (9, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
            (99, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ] {
            let (fit, left_out) = fitting(&wanted, &own, most, &local);
            let fit: Vec<_> = fit.into_keys().collect();
            assert_eq!(
                fit,
                expected
                    .iter()
                    .map(|number| net(*number))
                    .collect::<Vec<_>>()
            );
            assert_eq!(fit.len() + left_out.len(), 9);
        }
    }
}
