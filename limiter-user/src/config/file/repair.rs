//! Brackets that are never closed, and headers that are none. A TOML parser cannot know where they were
//! meant to end, and finds fault with all that follows; here they are told once, and overwritten with
//! spaces, so that what follows can be read. Everything stays where it is.

use super::mistakes::Mistakes;

/// The text without what cannot be closed.
pub fn repair(text: &str, mistakes: &mut Mistakes) -> String {
    let mut lines = Lines {
        lines: text.split_inclusive('\n').map(Line::new).collect(),
        open: Vec::new(),
        string: None,
    };
    let mut index = 0;
    while index <= lines.lines.len() {
        index = lines.step(index, mistakes);
    }
    lines.lines.iter().map(Line::shown).collect()
}

struct Line<'t> {
    text: &'t str,
    blank: bool,
    /// A string begins and does not end on it.
    unclosed: bool,
}

impl<'t> Line<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            blank: false,
            unclosed: false,
        }
    }

    fn shown(&self) -> String {
        match self.text.strip_suffix('\n') {
            _ if !self.blank => self.text.to_owned(),
            Some(line) => " ".repeat(line.len()) + "\n",
            None => " ".repeat(self.text.len()),
        }
    }

    fn trimmed(&self) -> &'t str {
        self.text.trim_start_matches('\u{feff}').trim()
    }

    /// `[lists]`, `[[limit]]`, `[limit.match]`.
    fn is_header(&self) -> bool {
        let line = self.trimmed();
        let (open, close) = if line.starts_with("[[") {
            ("[[", "]]")
        } else {
            ("[", "]")
        };
        let inside = line
            .strip_prefix(open)
            .and_then(|rest| rest.split_once(close));
        inside.is_some_and(|(path, rest)| {
            let rest = rest.trim_start();
            is_path(path) && (rest.is_empty() || rest.starts_with('#'))
        })
    }

    /// `rate = `
    fn is_key(&self) -> bool {
        self.trimmed()
            .split_once('=')
            .is_some_and(|(path, _)| is_path(path))
    }
}

/// Keys without quotes, and dots between them.
fn is_path(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '\t');
    !text.trim().is_empty() && text.chars().all(allowed)
}

struct Lines<'t> {
    lines: Vec<Line<'t>>,
    /// Brackets that are open, and the lines that they are on.
    open: Vec<(u8, usize)>,
    /// The delimiter of a string over several lines that is open, and its line.
    string: Option<(&'static str, usize)>,
}

impl Lines<'_> {
    /// Looks at one line, or at the end behind the last one; says which is next.
    fn step(&mut self, index: usize, mistakes: &mut Mistakes) -> usize {
        if let Some(next) = self.runaway(index, mistakes) {
            return next;
        }
        let Some(line) = self.lines.get(index) else {
            return index + 1;
        };
        if self.open.is_empty() && self.string.is_none() && line.trimmed().starts_with('[') {
            return self.header(index, mistakes);
        }
        self.scan(index);
        index + 1
    }

    fn header(&mut self, index: usize, mistakes: &mut Mistakes) -> usize {
        if self.lines[index].is_header() {
            mistakes.header(index + 1);
            return index + 1;
        }
        let line = self.lines[index].trimmed();
        mistakes.syntax(
            index + 1,
            format!("'{line}' is not a header: write it as in [[limit]] or [lists], and nothing behind it"),
        );
        // Its keys belong to a table that is not known.
        let next = (index + 1..self.lines.len()).find(|next| self.lines[*next].is_header());
        let next = next.unwrap_or(self.lines.len());
        self.blank(index..next);
        next
    }

    /// Something that is open, at a line that cannot be inside it.
    fn runaway(&mut self, index: usize, mistakes: &mut Mistakes) -> Option<usize> {
        let line = self.lines.get(index);
        if let Some((delimiter, start)) = self.string {
            if line.is_none() {
                self.string = None;
                self.open.clear();
                mistakes.syntax(start + 1, format!("a string begins with {delimiter} and does not end: write {delimiter} behind it"));
                self.blank(start..index);
            }
            return None;
        }
        let &(outermost, start) = self.open.first()?;
        let &(innermost, _) = self.open.last()?;
        let outside =
            line.is_none_or(|line| line.is_header() || (innermost == b'[' && line.is_key()));
        if !outside {
            return None;
        }
        self.open.clear();
        mistakes.syntax(start + 1, self.unclosed(start, outermost));
        // The lines of a table look like those behind it: they may be either.
        let end = if outermost == b'{' { start + 1 } else { index };
        self.blank(start..end);
        Some(end)
    }

    fn unclosed(&self, line: usize, bracket: u8) -> String {
        if self.lines[line].unclosed {
            return "a string begins and does not end on this line: write the quote behind it"
                .to_owned();
        }
        let (open, close) = if bracket == b'{' {
            ('{', '}')
        } else {
            ('[', ']')
        };
        format!("'{open}' opens here and is never closed: write '{close}' behind its last value")
    }

    fn blank(&mut self, range: std::ops::Range<usize>) {
        for line in &mut self.lines[range] {
            line.blank = true;
        }
    }

    /// Notes what opens and closes on a line.
    fn scan(&mut self, index: usize) {
        let mut rest = self.lines[index].text;
        if let Some((delimiter, _)) = self.string {
            let Some(end) = string_end(rest, delimiter) else {
                return;
            };
            self.string = None;
            rest = &rest[end..];
        }
        while let Some(at) = rest.find(['#', '"', '\'', '[', ']', '{', '}']) {
            let token = &rest[at..];
            rest = match token.as_bytes()[0] {
                b'#' => return,
                b'"' | b'\'' => self.string(index, token),
                bracket => {
                    self.bracket(index, bracket);
                    &token[1..]
                }
            };
        }
    }

    fn bracket(&mut self, index: usize, bracket: u8) {
        let opening = match bracket {
            b']' => b'[',
            b'}' => b'{',
            _ => return self.open.push((bracket, index)),
        };
        // Another one is left to the parser.
        if self.open.last().is_some_and(|(open, _)| *open == opening) {
            self.open.pop();
        }
    }

    /// What follows the string that `text` begins with.
    fn string<'s>(&mut self, index: usize, text: &'s str) -> &'s str {
        for delimiter in ["\"\"\"", "'''"] {
            if let Some(inside) = text.strip_prefix(delimiter) {
                let end = string_end(inside, delimiter);
                if end.is_none() {
                    self.string = Some((delimiter, index));
                }
                return end.map_or("", |end| &inside[end..]);
            }
        }
        let end = string_end(&text[1..], &text[..1]);
        self.lines[index].unclosed |= end.is_none();
        end.map_or("", |end| &text[1 + end..])
    }
}

/// Where what follows the string begins, of which `text` is what follows its opening `delimiter`.
fn string_end(text: &str, delimiter: &str) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(delimiter.as_bytes()) {
            // Of five quotes the first two belong to the string.
            let more = rest[delimiter.len()..].iter().take(delimiter.len() - 1);
            let quotes = more
                .take_while(|byte| delimiter.as_bytes().contains(byte))
                .count();
            return Some(at + delimiter.len() + quotes);
        }
        let is_escape = rest[0] == b'\\' && delimiter.starts_with('"');
        at += if is_escape { 2 } else { 1 };
    }
    None
}
