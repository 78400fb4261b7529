//! The errors of Redis.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::{error::Fault, options::Target, socket::TOO_LONG};

/// Texts of errors about missing rights: from scripts of Redis and Valkey, and from the client about a forbidden
/// database.
const FORBIDDEN: [&str; 3] = [
    "The user executing the script",
    "ACL failure in script",
    "no permissions to run",
];

pub(super) fn fault(target: &Target, error: &RedisError) -> Fault {
    use ServerErrorKind::{NoPerm, ReadOnly};
    let why = match error.code() {
        Some(code) => format!("{code} {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    };
    let why = target.quoted(&why);
    match error.kind() {
        ErrorKind::AuthenticationFailed => Fault::Denied,
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Fault::Invalid(why),
        ErrorKind::Server(NoPerm) => Fault::Forbidden(why),
        ErrorKind::Server(ReadOnly) => Fault::Replica,
        ErrorKind::Io if why.contains(TOO_LONG) => Fault::Invalid(why),
        ErrorKind::Io => Fault::Unreachable(why),
        _ => match error.code() {
            // DENIED: the server is in protected mode.
            Some("NOAUTH" | "WRONGPASS" | "DENIED") => Fault::Denied,
            Some("OOM") => Fault::Full,
            // A script's missing rights are reported as a script error.
            _ if FORBIDDEN.iter().any(|words| why.contains(words)) => Fault::Forbidden(why),
            _ if why.contains("ERR unknown command") => {
                Fault::NotAStore("not a Redis, or forbids commands".to_owned())
            }
            _ => Fault::Refused(why),
        },
    }
}
