//! The entries of a list that may be banned.

use std::{collections::BTreeMap, time::Duration};

use ipnet::IpNet;
use limiter_lists::{Entry, List, Options, read};

use crate::{
    bannable,
    host::ReadAs,
    left_out::{LeftOut, Reason},
};

/// The entries of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries {
    /// Prefixes that may be banned, with the time after which they end, if the list has one.
    pub prefixes: BTreeMap<IpNet, Option<Duration>>,
    /// The other entries.
    pub left_out: Vec<LeftOut>,
    /// The format in which the list was read.
    pub read_as: ReadAs,
}

/// Reads a list that was written `age` ago, from which the ends of its entries count.
/// Fails if it is refused as a whole, if more than a tenth of the entries cannot be read or must not be banned, or if
/// there is no entry.
pub fn list(bytes: &[u8], options: &Options, age: Duration) -> Result<Entries, String> {
    let list = read(bytes, options).map_err(|error| match error.is_size() {
        true => format!("{error}: set max-size if it should be"),
        false => error.to_string(),
    })?;
    let mut all = Entries {
        left_out: left_out(&list),
        read_as: read_as(&list),
        ..Entries::default()
    };
    let mut too_large = 0;
    for entry in list.entries.iter() {
        match add(&entry, age, &mut all.prefixes) {
            Ok(()) => {}
            Err(why) => {
                too_large += 1;
                let first = || format!("{}, {why}", entry.place);
                LeftOut::add(&mut all.left_out, Reason::TooLarge, first);
            }
        }
    }
    all.read_as.prefixes = all.prefixes.len() as u64;
    let wrong = list.left_out.mistakes() + too_large;
    let entries = list.entries.len() as u64 - too_large + wrong;
    if entries == wrong && wrong == 0 {
        return Err("it has no addresses".to_owned());
    }
    if wrong * 10 > entries {
        let mistakes = all.left_out.iter();
        let mistakes = mistakes.filter(|left_out| left_out.reason != Reason::NotBan);
        let mistakes: Vec<_> = mistakes.map(LeftOut::text).collect();
        let advice = list.advice.map(|advice| format!("; {advice}"));
        return Err(format!(
            "{wrong} of {entries} entries cannot be read or must not be banned, more than a tenth; it was read as {} ({}){}: {}",
            list.format,
            list.why,
            advice.unwrap_or_default(),
            mistakes.join("; ")
        ));
    }
    Ok(all)
}

/// Adds the prefixes of an entry, all or none. An entry that has ended has none.
fn add(
    entry: &Entry,
    age: Duration,
    prefixes: &mut BTreeMap<IpNet, Option<Duration>>,
) -> Result<(), String> {
    entry.range.prefixes().try_for_each(|net| bannable(&net))?;
    let ends_in = entry.ends_in.map(|time| time.saturating_sub(age));
    if ends_in == Some(Duration::ZERO) {
        return Ok(());
    }
    for net in entry.range.prefixes() {
        let known = prefixes.entry(net).or_insert(ends_in);
        // Of two ends, the later one. No end is later than any.
        *known = known.zip(ends_in).map(|(known, other)| known.max(other));
    }
    Ok(())
}

fn left_out(list: &List) -> Vec<LeftOut> {
    let mut all = Vec::new();
    for reason in limiter_lists::Reason::ALL {
        if let Some(first) = list.left_out.first(reason) {
            let count = list.left_out.count(reason);
            LeftOut::add_many(&mut all, reason.into(), count, || first.to_string());
        }
    }
    all
}

fn read_as(list: &List) -> ReadAs {
    let networks = list.entries.iter().filter(|entry| entry.has_host_bits);
    let first = networks.clone().next();
    ReadAs {
        format: list.format.to_string(),
        why: list.why.clone(),
        entries: list.entries.len() as u64,
        prefixes: 0,
        networks: networks.count() as u64,
        first_network: first.map(|entry| entry.place.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Entries, String> {
        let options = Options {
            format: None,
            fields: Vec::new(),
            max_size: 1 << 20,
        };
        list(text.as_bytes(), &options, Duration::from_secs(100))
    }

    #[test]
    fn pages_and_empty_lists_are_refused() {
        for (text, says) in [
            ("", "no addresses"),
            ("# nothing\n", "no addresses"),
            ("<html><body>Blocked</body></html>", "web page"),
            ("0.0.0.0/0\n", "1 of 1 entries"),
            ("192.0.2.1\n{\"cidr\":\"192.0\n", "1 of 2 entries"),
            ("{\"cidr\": 7}", "no addresses"),
            ("0.0.0.0 ads.example.net", "hosts file"),
        ] {
            let why = read_text(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn wrong_line_among_many_is_left_out_and_named() {
        let many: String = (0..20).map(|last| format!("192.0.2.{last}\n")).collect();
        let read = read_text(&(many.clone() + "0.0.0.0/1\n192.0.2.32198.51.100.223")).unwrap();
        assert_eq!(read.prefixes.len(), 20);
        let left_out: Vec<_> = read.left_out.iter().map(LeftOut::text).collect();
        assert_eq!(
            left_out,
            [
                "1 entry is left out (not an address, prefix or range): line 22, '192.0.2.32198.51.100.223'",
                "1 entry is left out (too much of the Internet to ban): line 21, 0.0.0.0/1 is too much of the Internet to ban: ban /8 or longer, or use `limiter deny add`"
            ]
        );
        let why = read_text(&(many + "x\ny\nz z")).unwrap_err();
        assert!(
            why.contains("3 of 23") && why.contains("line 21, 'x'") && why.contains("as plain"),
            "{why}"
        );
    }

    #[test]
    fn range_with_a_prefix_that_must_not_be_banned_is_left_out_whole() {
        let many: String = (0..10).map(|last| format!("192.0.2.{last}\n")).collect();
        let read = read_text(&(many + "11.255.255.255-63.255.255.255")).unwrap();
        assert_eq!(read.prefixes.len(), 10);
        assert_eq!(read.left_out[0].reason, Reason::TooLarge);
    }

    #[test]
    fn ends_count_from_the_time_of_the_list() {
        let text = "add x 192.0.2.1 timeout 101\nadd x 192.0.2.2 timeout 99\nadd x 192.0.2.3\nadd x 192.0.2.1 timeout 110\nadd x 192.0.2.3 timeout 400";
        let read = read_text(text).unwrap();
        let ends: Vec<_> = read.prefixes.values().copied().collect();
        assert_eq!(ends, [Some(Duration::from_secs(10)), None]);
        assert_eq!(read.left_out, []);
        // A list whose entries have all ended is no mistake.
        assert_eq!(
            read_text("add x 192.0.2.1 timeout 9")
                .unwrap()
                .prefixes
                .len(),
            0
        );
    }

    #[test]
    fn networks_of_addresses_are_counted() {
        let read = read_text("192.0.2.0/24\n198.51.100.7/24").unwrap().read_as;
        assert_eq!((read.entries, read.networks), (2, 1));
        assert_eq!(read.first_network.as_deref(), Some("line 2"));
    }
}
