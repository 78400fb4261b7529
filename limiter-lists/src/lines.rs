//! Lines, and their comments.

/// The lines of a text with their numbers, without white space around them.
pub fn numbered(text: &str) -> impl Iterator<Item = (u32, &str)> {
    (1..).zip(text.lines().map(str::trim))
}

/// The lines that are neither empty nor comments.
pub fn significant(text: &str) -> impl Iterator<Item = (u32, &str)> {
    numbered(text).filter(|(_, line)| !line.is_empty() && !is_comment(line))
}

/// Returns true if the whole line is a comment.
pub fn is_comment(line: &str) -> bool {
    line.starts_with(['#', ';']) || line.starts_with("//")
}

/// The part of a line before its comment, and whether the comment may be another column: it begins with `;`, and has
/// a number or an address.
pub fn without_comment(line: &str) -> (&str, bool) {
    let Some(begin) = line.find(['#', ';', '/']) else {
        return (line, false);
    };
    let mut begin = Some(begin);
    while let Some(index) = begin {
        let rest = &line[index..];
        let is_apart = line[..index].ends_with(char::is_whitespace);
        let is_end = match rest.as_bytes()[0] {
            b'#' => true,
            b';' => is_apart,
            _ => is_apart && rest.starts_with("//"),
        };
        if is_end {
            let has_more = rest.starts_with(';') && may_be_column(&rest[1..]);
            return (line[..index].trim_end(), has_more);
        }
        begin = rest[1..].find(['#', ';', '/']).map(|next| index + 1 + next);
    }
    (line, false)
}

fn may_be_column(comment: &str) -> bool {
    let first = comment.split(|end: char| end.is_whitespace() || ",;".contains(end));
    let first = first.filter(|word| !word.is_empty()).take(1);
    first
        .into_iter()
        .any(|word| word.parse::<u8>().is_ok() || crate::address::read(word).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_lines() {
        for (line, before, has_more) in [
            ("192.0.2.0/24", "192.0.2.0/24", false),
            ("192.0.2.0/24 ; SBL1", "192.0.2.0/24", false),
            ("192.0.2.7#4#2#Scanning Host", "192.0.2.7", false),
            ("192.0.2.7\t\t# 2026-01-01", "192.0.2.7", false),
            ("192.0.2.0/24 // x", "192.0.2.0/24", false),
            ("192.0.2.0//24", "192.0.2.0//24", false),
            ("192.0.2.0;24", "192.0.2.0;24", false),
            ("192.0.2.0 ; 24", "192.0.2.0", true),
            ("192.0.2.0 ;192.0.2.255", "192.0.2.0", true),
            ("192.0.2.0;x # y", "192.0.2.0;x", false),
        ] {
            assert_eq!(without_comment(line), (before, has_more), "{line}");
        }
        assert!(["# a", ";a", "//a"].into_iter().all(is_comment));
        assert!(!is_comment("/a"));
    }
}
