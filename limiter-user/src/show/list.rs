//! The output of `list`.

use std::collections::{HashMap, HashSet};

use limiter_fleet::status::Listed;

use crate::show::units::whole;

/// One line per prefix in force. For a prefix that the fleet added, a comment names the host and the time.
/// Fleet prefixes that are not in force are comments too.
pub fn lines(in_force: &[String], fleet: &[Listed]) -> String {
    let by_prefix: HashMap<_, _> = (fleet.iter())
        .map(|listed| (listed.prefix.as_str(), listed))
        .collect();
    let mut text = String::new();
    for prefix in in_force {
        text.push_str(prefix);
        if let Some(listed) = by_prefix.get(prefix.as_str()) {
            text.push_str(&format!("  # {}", comment(listed)));
        }
        text.push('\n');
    }
    let in_force: HashSet<_> = in_force.iter().map(String::as_str).collect();
    for listed in fleet {
        if !in_force.contains(listed.prefix.as_str()) {
            let (prefix, comment) = (&listed.prefix, comment(listed));
            text.push_str(&format!("# {prefix} is not in force here: {comment}\n"));
        }
    }
    text
}

fn comment(listed: &Listed) -> String {
    let ago = whole(listed.age_seconds.floor());
    format!("by {}, {ago} ago", listed.by)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(prefix: &str, age_seconds: f64) -> Listed {
        Listed {
            prefix: prefix.to_owned(),
            by: "web-1".to_owned(),
            age_seconds,
        }
    }

    #[test]
    fn fleet_prefixes_are_shown_with_author_and_age() {
        let in_force = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(str::to_owned);
        let fleet = [
            listed("192.0.2.2", 3_725.9),
            listed("192.0.2.3", 0.4),
            listed("0.0.0.0/0", 5.0),
        ];
        assert_eq!(
            lines(&in_force, &fleet),
            "192.0.2.1\n192.0.2.2  # by web-1, 1h 2m 5s ago\n192.0.2.3  # by web-1, 0s ago\n\
             # 0.0.0.0/0 is not in force here: by web-1, 5s ago\n"
        );
        assert_eq!(lines(&in_force[..1], &[]), "192.0.2.1\n");
    }

    #[test]
    fn printed_list_reads_back() {
        let in_force = ["192.0.2.2", "2001:db8::/32"].map(str::to_owned);
        let fleet = [listed("192.0.2.2", 1.0), listed("::/0", 1.0)];
        let read = limiter_config::lists::read(lines(&in_force, &fleet).as_bytes()).unwrap();
        let shown: Vec<_> = read
            .iter()
            .map(|net| limiter_config::lists::show(&net))
            .collect();
        assert_eq!(shown, in_force);
    }
}
