//! Secrets in texts for people: messages may end up in a journal that others read.

use clap::{
    Arg, Command,
    error::{ContextKind, ContextValue, Error},
};

/// The text that a secret is replaced by.
const HIDDEN: &str = "***";

/// Hides the user and the password of each URL, and its query, which may be a key. The patterns of addresses in advice
/// stay.
pub fn hide(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(scheme) = rest.find("://") {
        let (before, after) = rest.split_at(scheme + 3);
        let is_end = |c: char| c.is_whitespace() || c == '\'' || c == '"';
        let (url, next) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        shown.push_str(before);
        let (url, is_asked) = match url.split_once('?') {
            Some((url, query)) if !query.starts_with("sslmode=") => (url, true),
            _ => (url, false),
        };
        match url.rsplit_once('@') {
            Some((user, host)) if !user.starts_with("[USER") => {
                shown.extend([HIDDEN, "@", host]);
            }
            _ => shown.push_str(url),
        }
        if is_asked {
            shown.extend(["?", HIDDEN]);
        }
        rest = next;
    }
    shown + rest
}

/// Hides the value of an argument that may come from the environment as a secret.
pub fn hide_value(error: &mut Error, mut command: Command) {
    command.build();
    let arguments = command.get_subcommands().flat_map(Command::get_arguments);
    let mut secret = arguments.filter(|argument| argument.is_hide_env_values_set());
    let wrong = error.get(ContextKind::InvalidArg);
    let is_wrong = |secret: &Arg| wrong == Some(&ContextValue::String(secret.to_string()));
    if secret.any(is_wrong) {
        let value = ContextValue::String(HIDDEN.to_owned());
        error.insert(ContextKind::InvalidValue, value);
    }
}

#[cfg(test)]
mod tests {
    use super::hide;

    #[test]
    fn users_passwords_and_queries_of_urls_are_hidden() {
        for (text, shown) in [
            ("no URL, root@host", "no URL, root@host"),
            (
                "at https://host:1/a: refused",
                "at https://host:1/a: refused",
            ),
            ("'redis://u:p@host'", "'redis://***@host'"),
            (
                "a postgres://:p@h/p@t/x b://c@d",
                "a postgres://***@t/x b://***@d",
            ),
            ("\"http://h/?key=1\", 2", "\"http://h/?***\", 2"),
            ("https://u@h?x@y z", "https://***@h?*** z"),
            (
                "write redis://[USER[:PASSWORD]@]HOST, or postgres://h/d?sslmode=require",
                "write redis://[USER[:PASSWORD]@]HOST, or postgres://h/d?sslmode=require",
            ),
        ] {
            assert_eq!(hide(text), shown);
        }
    }
}
