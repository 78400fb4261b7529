//! Text as roff.

/// Escapes what roff would read as a command or an argument of one, or set as a hyphen instead of a minus.
pub fn plain(text: &str) -> String {
    let text = escape(text).replace('"', "\\(dq");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// The same, with what stands between backquotes in bold.
pub fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(index, part)| match index % 2 {
        0 => escape(part),
        _ => format!("\\fB{}\\fR", plain(part)),
    });
    parts.collect()
}

/// The heading of a section.
pub fn section(name: &str) -> String {
    format!(".SH {name}\n")
}

/// A term, and what it is.
pub fn item(term: &str, is: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", plain(term), with_code(is))
}

/// Lines that are left as they are.
pub fn literal(lines: &str) -> String {
    let lines: String = lines.lines().map(|line| plain(line) + "\n").collect();
    format!(".PP\n.RS 4\n.nf\n{lines}.fi\n.RE\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_command_of_roff() {
        assert_eq!(plain(".so /etc/shadow"), "\\&.so /etc/shadow");
        assert_eq!(plain("a\\b --x"), "a\\eb \\-\\-x");
        assert_eq!(with_code("see `a-b`: c"), "see \\fBa\\-b\\fR: c");
    }
}
