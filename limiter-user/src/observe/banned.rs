//! Bans: packets that each has dropped, and their rate.

use std::{cmp::Reverse, collections::BTreeMap};

use ipnet::IpNet;
use limiter_common::policy::verdict::Reason;

use super::{Count, Row, Wanted, busiest::Busiest};
use crate::{
    config::lists::show,
    kernel::{Attachment, Result, sys::clock},
};

/// The text in the limit's column for bans.
pub const LABEL: &str = "ban";

/// Drops of bans, remembered from one scan to the next.
#[derive(Debug, Default)]
pub struct Banned {
    /// Drops of all bans until the last scan.
    at: u64,
    /// Dropped packets of each banned prefix.
    drops: BTreeMap<IpNet, u64>,
}

impl Banned {
    /// The bans that `wanted` asks for. There may be many: they are read only if they have dropped packets since the last
    /// scan.
    pub fn read(&mut self, attachment: &Attachment, wanted: Wanted) -> Result<Vec<Row>> {
        let counters = attachment.tables.counters()?;
        let dropped = counters.by_reason[Reason::Ban as usize].packets;
        let drops = match (dropped == 0 || wanted.most == 0, self.at == dropped) {
            (true, _) => BTreeMap::new(),
            (_, true) => self.drops.clone(),
            (_, false) => {
                let bans = attachment.bans.at(clock::now()?)?.into_iter();
                let drops = bans.map(|(prefix, ban)| (prefix, ban.dropped));
                drops.filter(|(_, dropped)| *dropped > 0).collect()
            }
        };
        let before = std::mem::replace(&mut self.drops, drops);
        self.at = dropped;
        Ok(busiest(&self.drops, &before, wanted))
    }
}

/// The wanted rows, in order. `before`: the counts at the last scan. All packets of a prefix without a count there are
/// new.
fn busiest(
    drops: &BTreeMap<IpNet, u64>,
    before: &BTreeMap<IpNet, u64>,
    wanted: Wanted,
) -> Vec<Row> {
    let mut kept = Busiest::new(wanted.most);
    for (prefix, dropped) in drops {
        let known = before.get(prefix).filter(|known| *known <= dropped);
        let since = dropped - known.unwrap_or(&0);
        let row = Row::banned(*prefix, show(prefix), *dropped, since);
        kept.offer((row.activity.rank(wanted.order), Reverse(*prefix)), row);
    }
    kept.in_order()
}

/// Lowers the rows' counters to the drops of all bans, in all and since the last scan. Their counts are estimates,
/// which may be one step ahead (`limiter_common::policy::ban`).
pub fn bound(rows: &mut [Row], dropped: Count, since: u64) {
    let mut left = (dropped.packets, since);
    for Row { activity, .. } in rows {
        activity.over = activity.over.min(left.0);
        activity.over_since = activity.over_since.min(left.1);
        left = (left.0 - activity.over, left.1 - activity.over_since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::busiest::Order;

    fn drops(of: &[(&str, u64)]) -> BTreeMap<IpNet, u64> {
        let of = of.iter();
        of.map(|(prefix, dropped)| (prefix.parse().unwrap(), *dropped))
            .collect()
    }

    fn wanted(most: usize) -> Wanted {
        Wanted {
            order: Order::DroppedPerSecond,
            most,
        }
    }

    fn seen(rows: &[Row]) -> Vec<(&str, u64, u64)> {
        let rows = rows.iter();
        rows.map(|row| (&*row.source, row.activity.over, row.activity.over_since))
            .collect()
    }

    #[test]
    fn bans_are_sorted_by_drops_since_the_last_reading() {
        let before = drops(&[
            ("10.0.0.0/8", 900),
            ("2001:db8::/32", 50),
            ("192.0.2.1/32", 80),
        ]);
        let now = drops(&[
            ("10.0.0.0/8", 907),
            ("2001:db8::/32", 150),
            ("192.0.2.1/32", 9),
            ("203.0.113.0/24", 8),
        ]);
        let rows = busiest(&now, &before, wanted(3));
        let all = [
            ("2001:db8::/32", 150, 100),
            ("192.0.2.1", 9, 9),
            ("203.0.113.0/24", 8, 8),
        ];
        assert_eq!(seen(&rows), all, "of a count that began anew, all");
    }

    #[test]
    fn rows_do_not_exceed_the_drops_of_all_bans() {
        let now = drops(&[("192.0.2.1/32", 1_085), ("192.0.2.2/32", 61)]);
        let mut rows = busiest(&now, &drops(&[]), wanted(9));
        let dropped = Count {
            packets: 1_100,
            bytes: 0,
        };
        bound(&mut rows, dropped, 1_090);
        assert_eq!(
            seen(&rows),
            [("192.0.2.1", 1_085, 1_085), ("192.0.2.2", 15, 5)]
        );
    }
}
