//! The output of `log`: one line of the program per packet, for people.

use std::net::Ipv6Addr;

use limiter_common::policy::verdict::Reason;

/// Converts a line of the program, such as `192.0.2.7: 98 bytes, reason 3`, and adds the verdict. `shadow`: the
/// interface drops nothing. The program applies shadow after it has written the line.
pub fn line(written: &str, shadow: bool) -> String {
    readable(written, shadow).unwrap_or_else(|| written.to_owned())
}

fn readable(written: &str, shadow: bool) -> Option<String> {
    let (source, rest) = written.split_once(": ")?;
    let (length, number) = rest.split_once(" bytes, reason ")?;
    let reason = Reason::from_number(number.parse().ok()?)?;
    let verdict = match (reason.passes(), shadow) {
        (true, _) => "passed",
        (false, true) => "passed in shadow",
        (false, false) => "dropped",
    };
    let source = ipv6(source).map_or_else(|| source.to_owned(), |address| address.to_string());
    Some(format!(
        "{source}: {length} bytes, {verdict}: {}",
        reason.text()
    ))
}

/// Parses an IPv6 address, which the program writes as four 32-bit words.
fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let words = text.split(':').map(|word| u32::from_str_radix(word, 16));
    let words: Vec<_> = words.collect::<Result<_, _>>().ok()?;
    let address = |bits: u128, word: &u32| bits << 32 | u128::from(*word);
    (words.len() == 4).then(|| words.iter().fold(0, address).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_name_verdict_and_reason() {
        let over = "192.0.2.7: 98 bytes, reason 3";
        assert_eq!(
            line(over, false),
            "192.0.2.7: 98 bytes, dropped: over the limit"
        );
        assert_eq!(
            line(over, true),
            "192.0.2.7: 98 bytes, passed in shadow: over the limit"
        );
        assert_eq!(
            line("20010db8:10000:0:2: 62 bytes, reason 0", false),
            "2001:db8:1::2: 62 bytes, passed: admitted"
        );
        for strange in ["", "lost", "192.0.2.7: 98 bytes, reason 99"] {
            assert_eq!(line(strange, false), strange);
        }
    }
}
