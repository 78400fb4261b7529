//! Text with labels, wrapped between words.

use textwrap::{Options, WordSplitter};

/// The column in which the text after a label begins.
const TEXT: usize = 11;

/// Lines of text for a terminal, or for a pipe, whose lines stay whole.
#[derive(Debug)]
pub struct Page {
    text: String,
    width: Option<usize>,
}

impl Page {
    /// Creates an empty page. `width`: columns of the terminal; none: lines are not wrapped.
    pub fn new(width: Option<usize>) -> Self {
        // Below that, a word per line would be harder to read than the terminal's own breaks.
        let width = width.filter(|width| *width >= 3 * TEXT);
        Self {
            text: String::new(),
            width,
        }
    }

    /// The columns of the terminal.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// Adds lines that are not wrapped, such as those of a table.
    pub fn add(&mut self, lines: &str) {
        self.text += lines;
    }

    /// Adds a line with its label; further lines about the same have an empty one.
    pub fn line(&mut self, label: &str, text: &str) {
        let label = format!("  {label:<8} ");
        self.wrapped(&(label + text), TEXT);
    }

    /// Adds a line of text.
    pub fn note(&mut self, text: &str) {
        self.wrapped(&format!("  {text}"), 4);
    }

    /// Adds a line, whose further lines are indented by `indent` columns.
    pub fn wrapped(&mut self, line: &str, indent: usize) {
        match self.width {
            Some(width) if line.chars().count() > width => {
                let begin: String = line.chars().take_while(|c| *c == ' ').collect();
                let indent = " ".repeat(indent);
                let options = Options::new(width)
                    .initial_indent(&begin)
                    .subsequent_indent(&indent)
                    .word_splitter(WordSplitter::NoHyphenation)
                    .break_words(false);
                self.text += &textwrap::fill(line.trim_start(), options);
            }
            _ => self.text += line,
        }
        self.text.push('\n');
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words_for_a_terminal_only() {
        let text = "one two three four five six --not-split at its hyphens";
        let page = |width| {
            let mut page = Page::new(width);
            page.line("label", text);
            page.note("short");
            page.finish()
        };
        assert_eq!(page(None), format!("  label    {text}\n  short\n"));
        assert_eq!(page(Some(8)), page(None), "narrower than a label");
        let indent = " ".repeat(TEXT);
        assert_eq!(
            page(Some(34)),
            format!(
                "  label    one two three four five\n{indent}six --not-split at its\n{indent}hyphens\n  short\n"
            )
        );
    }
}
