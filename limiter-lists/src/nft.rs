//! The output of `nft list set`, `table` or `ruleset`, and files for `nft -f`.

use std::time::Duration;

use crate::{
    address::Addresses,
    error::Error,
    list::{List, Place},
    nft_words::{Token, duration, element, tokens},
    reason::Reason,
    sets::chosen,
};

/// Returns true if a line begins such a file.
pub fn is_line(line: &str) -> bool {
    let words: Vec<_> = line.split_whitespace().collect();
    match words[..] {
        ["table" | "set", .., last] => last == "{" || line.contains('{'),
        ["add" | "create", "element" | "set" | "table", ..] => true,
        ["flush" | "delete", "ruleset" | "table" | "set", ..] => true,
        ["elements", "=", ..] => true,
        _ => false,
    }
}

/// An element of a set.
struct Element {
    line: u32,
    set: usize,
    text: String,
    read: Result<Addresses, Reason>,
    ends_in: Option<Duration>,
}

struct Reader<'t> {
    tokens: &'t [(u32, Token<'t>)],
    sets: Vec<String>,
    elements: Vec<Element>,
    /// Lines that are not part of sets.
    others: Vec<u32>,
}

/// Reads the elements of the set that `fields` names, or of the only one.
pub fn read(text: &str, fields: &[String], list: &mut List) -> Result<(), Error> {
    let tokens = tokens(text);
    let mut reader = Reader {
        tokens: &tokens,
        sets: Vec::new(),
        elements: Vec::new(),
        others: Vec::new(),
    };
    reader.statements(true, None);
    let chosen = chosen(&reader.sets, fields)?;
    let lines: Vec<_> = text.lines().collect();
    for element in reader.elements {
        if chosen.contains(&reader.sets[element.set]) {
            let place = Place::Line(element.line);
            list.add_until(place, element.read, &element.text, element.ends_in);
        }
    }
    reader.others.dedup();
    for line in reader.others {
        let text = lines.get(line as usize - 1).copied().unwrap_or_default();
        list.add(Place::Line(line), Err(Reason::OtherKind), text);
    }
    Ok(())
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<(u32, Token<'t>)> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    /// The words up to a mark, and the mark.
    fn words(&mut self) -> (u32, Vec<&'t str>, Option<Token<'t>>) {
        let (mut line, mut words) = (None, Vec::new());
        while let Some((number, token)) = self.next() {
            line = line.or(Some(number));
            match token {
                Token::Word(word) => words.push(word),
                Token::Text => words.push("\""),
                mark => return (line.unwrap_or(0), words, Some(mark)),
            }
        }
        (line.unwrap_or(0), words, None)
    }

    /// Reads statements up to the end of their block, which is that of a set, a table or the file. `is_file`: it is the
    /// file, which may have tables.
    fn statements(&mut self, is_file: bool, set: Option<usize>) {
        let mut default = None;
        loop {
            let (line, words, mark) = self.words();
            match (&words[..], mark) {
                ([], Some(Token::End)) => {}
                (_, None) if words.is_empty() => return,
                ([], Some(Token::Close)) => return,
                (["table", ..], Some(Token::Open)) if is_file => self.statements(false, None),
                (["set", .., name] | ["add" | "create", "set", .., name], Some(Token::Open))
                    if set.is_none() =>
                {
                    let set = self.set(name);
                    self.statements(false, Some(set));
                }
                (["add" | "create", "element", .., name], Some(Token::Open)) => {
                    let set = self.set(name);
                    self.elements(set, None);
                }
                (["elements", "="], Some(Token::Open)) => {
                    // The output of a set alone, cut out of its block.
                    let set = set.unwrap_or_else(|| self.set(""));
                    self.elements(set, default);
                }
                (["timeout", time], _) if set.is_some() => default = duration(time),
                (
                    [
                        "table" | "flush" | "delete" | "destroy" | "add" | "create",
                        ..,
                    ],
                    Some(Token::End),
                ) if words.get(1) != Some(&"rule") => {}
                ([first, ..], Some(Token::End | Token::Comma))
                    if set.is_some() && OPTIONS.contains(first) => {}
                (_, Some(Token::Close)) => {
                    self.other(line, &words, set.is_some());
                    return;
                }
                (_, mark) => {
                    self.others.push(line);
                    if mark == Some(Token::Open) {
                        self.skip();
                    }
                    if mark.is_none() {
                        return;
                    }
                }
            }
        }
    }

    fn other(&mut self, line: u32, words: &[&str], is_set: bool) {
        if !(is_set && words.first().is_some_and(|first| OPTIONS.contains(first))) {
            self.others.push(line);
        }
    }

    fn set(&mut self, name: &str) -> usize {
        let known = self.sets.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.sets.push(name.to_owned());
            self.sets.len() - 1
        })
    }

    /// Notes the lines of a block that is not read, up to its end.
    fn skip(&mut self) {
        let mut depth = 1_u32;
        while depth > 0 {
            let Some((line, token)) = self.next() else {
                return;
            };
            match token {
                Token::Open => depth += 1,
                Token::Close => depth -= 1,
                Token::End => {}
                _ => self.others.push(line),
            }
        }
    }

    /// Reads elements up to the end of their block.
    fn elements(&mut self, set: usize, default: Option<Duration>) {
        let (mut words, mut first) = (Vec::new(), None);
        while let Some((number, token)) = self.next() {
            match token {
                Token::End => {}
                Token::Word(word) => {
                    first = first.or(Some(number));
                    words.push(word);
                }
                Token::Text => words.push("\""),
                Token::Open => self.skip(),
                Token::Comma | Token::Close => {
                    if let Some(line) = first.take() {
                        let (read, ends_in) = element(&words, default);
                        let text = words.join(" ");
                        self.elements.push(Element {
                            line,
                            set,
                            text,
                            read,
                            ends_in,
                        });
                    }
                    words.clear();
                    if token == Token::Close {
                        return;
                    }
                }
            }
        }
        // The list is cut off.
        if let Some(line) = first {
            let (text, read) = (words.join(" "), Err(Reason::Text));
            self.elements.push(Element {
                line,
                set,
                text,
                read,
                ends_in: None,
            });
        }
    }
}

/// Statements within a set that are not elements.
const OPTIONS: [&str; 10] = [
    "type",
    "typeof",
    "flags",
    "size",
    "timeout",
    "gc-interval",
    "policy",
    "auto-merge",
    "comment",
    "counter",
];
