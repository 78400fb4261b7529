//! Names of protocols, services, TCP flags, DSCP values (RFC 2474, 2597, 3246, 5865, 8622) and ICMP types, as IANA lists
//! them.

/// One name a line: its kind, the name, and its number. An ICMP type has two, for ICMP and for ICMPv6; `-` for none. A
/// service has the names that people use, and its port.
const NAMES: &str = include_str!("names.txt");

/// The names of a kind, with their numbers.
pub fn all(kind: &str) -> impl Iterator<Item = (&'static str, [Option<u8>; 2])> {
    NAMES.lines().filter_map(move |line| {
        let mut words = line.strip_prefix(kind)?.split_whitespace();
        let name = words.next()?;
        let mut number = || words.next()?.parse().ok();
        Some((name, [number(), number()]))
    })
}

/// The numbers with this name, in any case.
pub fn numbers(kind: &str, text: &str) -> Option<[Option<u8>; 2]> {
    let (_, numbers) = all(kind).find(|(name, _)| name.eq_ignore_ascii_case(text))?;
    Some(numbers)
}

/// The number with this name.
pub fn number(kind: &str, text: &str) -> Option<u8> {
    numbers(kind, text)?[0]
}

/// The port of the service with this name, in any case.
pub fn port(text: &str) -> Option<u32> {
    NAMES.lines().find_map(|line| {
        let (name, port) = line.strip_prefix("port ")?.split_once(' ')?;
        name.eq_ignore_ascii_case(text).then(|| port.parse().ok())?
    })
}

/// The name of a number.
pub fn name(kind: &str, number: u32) -> Option<&'static str> {
    let has_number = |(_, [first, _]): &(_, [Option<u8>; 2])| first.map(u32::from) == Some(number);
    all(kind).find(has_number).map(|(name, _)| name)
}

/// All names of a kind, for messages.
pub fn listed(kind: &str) -> String {
    all(kind)
        .map(|(name, _)| name)
        .collect::<Vec<_>>()
        .join(", ")
}
