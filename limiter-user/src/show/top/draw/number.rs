//! Numbers in narrow columns.

use crate::show::units::grouped;

/// Formats a number in up to nine characters: `1,234,567`, then `12.3M`.
#[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
pub fn short(number: u64) -> String {
    if number < 10_000_000 {
        return grouped(number);
    }
    let mut value = number as f64 / 1e6;
    let mut unit = 'M';
    for larger in ['G', 'T', 'P'] {
        if value < 10_000.0 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    format!("{value:.1}{unit}")
}

/// Formats packets per second: `4.9`, `1,234`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown, not computed with; never negative"
)]
pub fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 9.95 {
        format!("{per_second:.1}")
    } else {
        short(per_second.round() as u64)
    }
}

/// Formats packets per second, or `-` if they are not known.
pub fn maybe(per_second: Option<f64>) -> String {
    per_second.map_or_else(|| "-".to_owned(), rate)
}

/// Puts the number in parentheses if shadow let the packets pass.
pub fn over(text: String, drops: bool) -> String {
    if drops { text } else { format!("({text})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_narrow() {
        assert_eq!(short(9_999_999), "9,999,999");
        assert_eq!(short(12_345_678), "12.3M");
        assert_eq!(short(9_999_900_000), "9999.9M");
        assert_eq!(short(12_345_678_901), "12.3G");
        assert!(short(u64::MAX).len() <= 10);
        assert_eq!(rate(0.0), "0");
        assert_eq!(rate(4.94), "4.9");
        assert_eq!(rate(9.96), "10");
        assert_eq!(rate(148_800_000.0), "148.8M");
        assert_eq!(maybe(None), "-");
        assert_eq!(over("7".to_owned(), false), "(7)");
    }
}
