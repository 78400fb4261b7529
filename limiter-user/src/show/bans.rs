//! The output of `bans`.

use crate::{
    observe::{Ban, Bans},
    show::{
        table::table,
        units::{counted, grouped, whole},
    },
};

/// The bans of an interface, then the sources that its limits hold.
pub fn bans(bans: &Bans) -> String {
    let count = counted(bans.count, "ban");
    let mut text = format!("{}: {count}\n", bans.interface);
    if !bans.bans.is_empty() {
        let rows = bans.bans.iter().map(|ban| {
            [
                ban.prefix.clone(),
                ban.left_seconds.map_or_else(|| "no end".to_owned(), whole),
                ban.origin.clone(),
                match ban.throttles {
                    true => format!("throttled: {}", ban.reason),
                    false => ban.reason.clone(),
                },
                grouped(ban.dropped_packets),
            ]
        });
        text += &(table("prefix|left|origin|reason|dropped", 4, rows) + "\n");
    }
    let more = bans.count - bans.bans.len() as u64;
    if more > 0 {
        text += &format!(" and {} more\n", grouped(more));
    }
    if bans.marks > 0 {
        let marks = counted(bans.marks, "mark");
        text += &format!(" and {marks} of fail2ban's jails, which --origin lists\n");
    }
    if !bans.held.is_empty() {
        let rows = bans.held.iter().map(|held_source| {
            let left = whole(held_source.left_seconds);
            [held_source.source.clone(), left, held_source.limit.clone()]
        });
        let held = table("source|left|limit", 3, rows);
        text += &format!("held by a limit:\n{held}\n");
    }
    text
}

/// The time left, the origin and the reason of a ban, after the word "banned".
pub fn since(ban: &Ban) -> String {
    let left = (ban.left_seconds).map(|left| format!("for {} more ", whole(left)));
    let reason = match ban.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    format!("{}by {}{reason}", left.unwrap_or_default(), ban.origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_show_time_left_origin_and_reason() {
        let ban = |left_seconds, reason: &str| Ban {
            prefix: "192.0.2.7".to_owned(),
            left_seconds,
            origin: "hand".to_owned(),
            reason: reason.to_owned(),
            age_seconds: 20.5,
            dropped_packets: 1_234,
            throttles: false,
        };
        assert_eq!(
            since(&ban(Some(479.5), "ssh brute force")),
            "for 8m more by hand: ssh brute force"
        );
        assert_eq!(since(&ban(None, "")), "by hand");
        let listing = Bans {
            interface: "eth0".to_owned(),
            count: 12,
            marks: 1,
            bans: vec![ban(Some(479.5), "ssh")],
            held: Vec::new(),
        };
        let lines = "eth0: 12 bans\n prefix     left  origin  reason  dropped\n 192.0.2.7  8m    hand    ssh       1,234\n and 11 more\n and 1 mark of fail2ban's jails, which --origin lists\n";
        assert_eq!(bans(&listing), lines);
    }
}
