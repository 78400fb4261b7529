//! The words of files of nft: tokens, the parts of an element, and times.

use std::time::Duration;

use crate::{
    address::{self, Addresses},
    reason::Reason,
};

/// A word, a mark or the end of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'t> {
    /// A word.
    Word(&'t str),
    /// A text in quotes.
    Text,
    /// `{`.
    Open,
    /// `}`.
    Close,
    /// `,`.
    Comma,
    /// `;`, or the end of a line.
    End,
}

/// Cuts a text into tokens, with the numbers of their lines.
pub fn tokens(text: &str) -> Vec<(u32, Token<'_>)> {
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let (token, length) = match first {
                '#' => break,
                '{' => (Token::Open, 1),
                '}' => (Token::Close, 1),
                ',' => (Token::Comma, 1),
                ';' => (Token::End, 1),
                '"' => (
                    Token::Text,
                    rest[1..].find('"').map_or(rest.len(), |end| end + 2),
                ),
                _ => {
                    let is_end = |end: char| end.is_whitespace() || "{},;\"".contains(end);
                    let end = rest.find(is_end).unwrap_or(rest.len());
                    (Token::Word(&rest[..end]), end)
                }
            };
            tokens.push((number, token));
            rest = rest[length..].trim_start();
        }
        tokens.push((number, Token::End));
    }
    tokens
}

/// Reads an element of a set: its addresses, and its end, of which `default` is the set's.
pub fn element(
    words: &[&str],
    default: Option<Duration>,
) -> (Result<Addresses, Reason>, Option<Duration>) {
    let mut ends_in = default;
    // A range may have spaces around its dash.
    let (text, options) = match words {
        [first, "-", last, options @ ..] => (format!("{first}-{last}"), options),
        [address, options @ ..] => ((*address).to_owned(), options),
        [] => return (Err(Reason::NotAddress), None),
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let is_known = match *option {
            "timeout" | "expires" => {
                let time = options.next().and_then(|time| duration(time));
                ends_in = time;
                time.is_some()
            }
            "comment" => options.next().is_some(),
            "counter" => true,
            "packets" | "bytes" => options
                .next()
                .is_some_and(|count| address::is_number(count)),
            "." => return (Err(Reason::OtherKind), None),
            _ => false,
        };
        if !is_known {
            return (Err(Reason::Text), None);
        }
    }
    (address::read(&text), ends_in)
}

/// Reads a time as nft writes it: 1d2h3m4s5ms.
pub fn duration(text: &str) -> Option<Duration> {
    let (mut sum, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest
            .find(|end: char| !end.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let number: u32 = number.parse().ok()?;
        let unit = behind
            .find(|end: char| end.is_ascii_digit())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit);
        let length = match unit {
            "w" => Duration::from_secs(7 * 86_400),
            "d" => Duration::from_secs(86_400),
            "h" => Duration::from_secs(3_600),
            "m" => Duration::from_secs(60),
            "s" | "" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return None,
        };
        sum = sum.checked_add(length.checked_mul(number)?)?;
        rest = behind;
    }
    (!sum.is_zero()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_nft_writes_them() {
        for (text, milliseconds) in [
            ("1h", Some(3_600_000)),
            ("59m32s120ms", Some(3_572_120)),
            ("1d2h", Some(93_600_000)),
            ("90", Some(90_000)),
            ("", None),
            ("h", None),
            ("1x", None),
            ("99999999999s", None),
        ] {
            let read = duration(text).map(|time| time.as_millis());
            assert_eq!(read, milliseconds, "{text}");
        }
    }
}
