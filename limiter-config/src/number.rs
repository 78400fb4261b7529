//! Numbers in rates and bursts: digits, a decimal point, a suffix.

use super::{Invalid, ensure, invalid};

/// Reads a count, as in 200 or 2k.
pub fn count(text: &str) -> Result<u64, Invalid> {
    parse(text, COUNTS)
}

/// Suffixes, each with what it is worth. Of several spellings, `|` between them, the first one is shown.
pub type Suffixes = [(&'static str, u64)];

/// Suffixes of counts.
pub const COUNTS: &Suffixes = &[
    ("", 1),
    ("k|K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// Reads `text` as a number with one of `suffixes`, each worth a factor. The number times the factor must be whole:
/// `1.5k` is 1500, `0.5` is an error.
pub fn parse(text: &str, suffixes: &Suffixes) -> Result<u64, Invalid> {
    let (whole, fraction, factor) = parts(text, suffixes)?;
    scale(whole, fraction, factor)
        .ok_or_else(|| invalid!("'{text}' is not a whole number below 2^63: write one, as in 1500"))
}

/// Splits a text behind its digits and decimal points.
pub fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    text.split_at(end.unwrap_or(text.len()))
}

/// The digits before and behind the decimal point, and the factor of the suffix.
pub fn parts<'t>(text: &'t str, suffixes: &Suffixes) -> Result<(&'t str, &'t str, u64), Invalid> {
    let (number, suffix) = split(text);
    ensure!(
        !number.is_empty(),
        "a number is missing: write one, as in 5"
    );
    let is_it = |names: &str| names.split('|').any(|name| name == suffix);
    let Some((_, factor)) = suffixes.iter().find(|(names, _)| is_it(names)) else {
        if suffix.starts_with([',', '_', ' ', '\'']) {
            return Err(invalid!(
                "'{text}' has a comma, a space or another mark: write digits alone, as in 1000, 1.5 or 1k"
            ));
        }
        let known = suffixes.iter().map(|(names, _)| first(names));
        let known: Vec<_> = known.filter(|name| !name.is_empty()).collect();
        return Err(invalid!(
            "'{suffix}' is not a unit: write a number, alone or with {}",
            known.join(", ")
        ));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    Ok((whole, fraction, *factor))
}

/// The spelling that is shown.
fn first(names: &'static str) -> &'static str {
    names.split_once('|').map_or(names, |(first, _)| first)
}

/// The product `whole.fraction` × `factor`, if it is whole and fits.
pub fn scale(whole: &str, fraction: &str, factor: u64) -> Option<u64> {
    if whole.is_empty() || fraction.contains('.') || fraction.len() > 9 {
        return None;
    }
    let places = u32::try_from(fraction.len()).ok()?;
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = digits.checked_mul(u128::from(factor))?;
    let unit = 10_u128.pow(places);
    let value = u64::try_from(scaled / unit).ok()?;
    (scaled % unit == 0 && value < 1 << 63).then_some(value)
}

/// Writes a number with the largest of `suffixes` that divides it.
pub fn format(value: u64, suffixes: &Suffixes) -> String {
    let fitting = suffixes
        .iter()
        .filter(|(_, factor)| value != 0 && value.is_multiple_of(*factor));
    match fitting.max_by_key(|(_, factor)| *factor) {
        Some((names, factor)) => format!("{}{}", value / factor, first(names)),
        None => value.to_string(),
    }
}
