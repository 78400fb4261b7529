//! The errors of Redis.

use redis::{ErrorKind, RedisError};

use crate::store::{
    error::{Fault, is_of_certificate},
    options::Target,
    socket::TOO_LONG,
};

/// Texts of errors about missing rights: from commands, from scripts of Redis and Valkey, and from the client about a
/// forbidden database.
const FORBIDDEN: [&str; 4] = [
    "NOPERM",
    "The user executing the script",
    "ACL failure in script",
    "no permissions to run",
];

const PASSWORD: &str = "check the user and --password-file, and on the store `ACL LIST`";
const PROTECTED: &str = "set a password on the store (requirepass), without which it accepts no other host (protected-mode)";

/// The fault of an error. `said`: the error that the server sent last, which the client may have dropped.
pub(super) fn fault(target: &Target, error: &RedisError, said: Option<String>) -> Fault {
    let said = said.map(|said| target.quoted(&said));
    let why = match error.code() {
        Some(code) => format!("{code} {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    };
    let why = target.quoted(&why);
    match error.kind() {
        ErrorKind::AuthenticationFailed => match said {
            Some(said) => of_server(said).unwrap_or_else(|said| Fault::Denied(said, PASSWORD)),
            None => Fault::Denied(why, PASSWORD),
        },
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Fault::Invalid(why),
        ErrorKind::Io if why.contains(TOO_LONG) => Fault::Invalid(why),
        ErrorKind::Io if is_of_certificate(&why) => Fault::Certificate(why),
        ErrorKind::Io => match said {
            Some(said) => of_server(said).unwrap_or_else(Fault::Closed),
            None => Fault::Unreachable(why),
        },
        _ => of_server(why).unwrap_or_else(Fault::Refused),
    }
}

/// The fault of an error that the server sent, or its words.
fn of_server(why: String) -> Result<Fault, String> {
    let is = |code: &str| why.split(' ').next() == Some(code);
    let has = |words: &str| why.contains(words);
    Ok(
        if is("NOAUTH") || is("WRONGPASS") || is("WRONGPASS:") || has("ERR AUTH") {
            Fault::Denied(why, PASSWORD)
        } else if is("DENIED") {
            Fault::Denied(why, PROTECTED)
        } else if is("OOM") {
            Fault::Full
        } else if is("READONLY") || is("MASTERDOWN") {
            Fault::Replica
        } else if has("max number of clients") {
            Fault::Crowded(why)
        } else if FORBIDDEN.iter().any(|words| has(words)) {
            // A script's missing rights are reported as a script error.
            Fault::Forbidden(why)
        } else if has("unknown command") {
            Fault::NotAStore(format!(
                "not a Redis, or one that renames or forbids commands ({why})"
            ))
        } else if has("DB index is out of range") {
            Fault::NotAStore(format!("a server without this database ({why})"))
        } else {
            return Err(why);
        },
    )
}
