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
        let (url, next) = after.split_at(end_of_url(after));
        shown.push_str(before);
        let host = match url.rsplit_once('@') {
            Some((user, host)) if !user.starts_with("[USER") => {
                shown.extend([HIDDEN, "@"]);
                host
            }
            _ => url,
        };
        match host.split_once('?') {
            Some((host, query)) if query != "sslmode=require" => shown.extend([host, "?", HIDDEN]),
            _ => shown.push_str(host),
        }
        rest = next;
    }
    shown + rest
}

/// The place behind a URL without its scheme. A password may have blanks and quotes, although a URL may not.
fn end_of_url(text: &str) -> usize {
    let is_end = |c: char| c.is_whitespace() || c == '\'' || c == '"';
    let end = |text: &str| text.find(is_end).unwrap_or(text.len());
    let word = &text[..end(text)];
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let begins_password = word
        .split_once(':')
        .is_some_and(|(_, password)| !word.contains(['@', '/']) && !is_port(password));
    let next_url = text.find("://").unwrap_or(text.len());
    match text[..next_url].rfind('@') {
        Some(host) if begins_password => host + end(&text[host..]),
        _ => word.len(),
    }
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
            ("https://u@h?x@y z", "https://***@y z"),
            ("redis://u:a?b@h: refused", "redis://***@h: refused"),
            ("redis://u:a\"b c@h d", "redis://***@h d"),
            (
                "postgres://h/d?sslmode=require&password=p",
                "postgres://h/d?***",
            ),
            (
                "write redis://[USER[:PASSWORD]@]HOST, or postgres://h/d?sslmode=require",
                "write redis://[USER[:PASSWORD]@]HOST, or postgres://h/d?sslmode=require",
            ),
        ] {
            assert_eq!(hide(text), shown);
        }
    }
}
