//! The errors of PostgreSQL.

use std::error::Error as _;

use tokio_postgres::{
    Error,
    error::{DbError, Severity},
};

use crate::store::{
    error::{Fault, is_of_certificate},
    options::Target,
    socket::TOO_LONG,
};

const PASSWORD: &str = "check --password-file, and on the store that the role exists, may log in, and has a password that has not expired (VALID UNTIL)";

pub(super) fn of(target: &Target, error: &Error) -> Fault {
    if let Some(error) = error.as_db_error() {
        return of_server(target, error);
    }
    let cause = error.source().map(ToString::to_string);
    let why = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    // The client does not tell the kinds of its errors otherwise.
    let begins = |words| why.starts_with(words);
    let is_of_socket = begins("error communicating") || begins("error performing TLS");
    let fault = if error.is_closed() || is_of_socket && !why.contains(TOO_LONG) {
        Fault::Unreachable
    } else if begins("invalid configuration: password") || begins("authentication error") {
        return Fault::Denied(target.quoted(&why), PASSWORD);
    } else {
        Fault::Invalid
    };
    let why = target.quoted(&why);
    if is_of_certificate(&why) {
        return Fault::Certificate(why);
    }
    fault(why)
}

/// The fault of a request. A connection that is closed, or is about to be, needs another one, whatever the server said.
pub(super) fn of_request(target: &Target, error: &Error, is_closed: bool) -> Fault {
    match error.as_db_error() {
        Some(error) if is_closed || is_last(error) => Fault::Closed(said(target, error)),
        _ => of(target, error),
    }
}

/// True if the server closes the connection after this error of a request. Old poolers send the localized field only.
fn is_last(error: &DbError) -> bool {
    match error.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => ["FATAL", "PANIC"].contains(&error.severity()),
    }
}

/// The code and the text of a server's error.
fn said(target: &Target, error: &DbError) -> String {
    target.quoted(&format!("{} {}", error.code().code(), error.message()))
}

fn of_server(target: &Target, error: &DbError) -> Fault {
    let code = error.code().code();
    let why = said(target, error);
    // Codes of appendix A of PostgreSQL's manual.
    match code {
        "28P01" => Fault::Denied(why, PASSWORD),
        // No such user, or no access from this host.
        "28000" => {
            let has = |words: &[&str]| words.iter().any(|words| why.contains(words));
            let advice = if has(&["certificate"]) {
                "give a certificate by --cert and --key, or sslcert and sslkey in the URL"
            } else if has(&["no encryption", "SSL off"]) {
                "add ?sslmode=verify-full to the URL, or let pg_hba.conf accept this host without TLS"
            } else {
                "check the user in the URL, and pg_hba.conf on the store"
            };
            Fault::Denied(why, advice)
        }
        "53300" => Fault::Crowded(why),
        "42501" => Fault::Forbidden(why),
        // Disk or memory is full.
        "53100" | "53200" => Fault::Full,
        // A transaction that only reads.
        "25006" => Fault::ReadOnly(why),
        // Shutting down, crashed, starting.
        "57P01" | "57P02" | "57P03" => Fault::Unreachable(why),
        // No such database, schema, function.
        "3D000" | "3F000" | "42883" => {
            Fault::NotAStore(format!("a PostgreSQL without limiter's schema ({why})"))
        }
        _ => Fault::Refused(why),
    }
}
