//! The errors of PostgreSQL.

use std::error::Error as _;

use tokio_postgres::{
    Error,
    error::{DbError, Severity},
};

use crate::store::{error::Fault, options::Target, socket::TOO_LONG};

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
        return Fault::Denied;
    } else {
        Fault::Invalid
    };
    fault(target.quoted(&why))
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
        // Wrong password, or no access from this host.
        "28P01" | "28000" => Fault::Denied,
        "42501" => Fault::Forbidden(why),
        // Disk or memory is full.
        "53100" | "53200" => Fault::Full,
        // A transaction that only reads.
        "25006" => Fault::Replica,
        // Shutting down, crashed, starting.
        "57P01" | "57P02" | "57P03" => Fault::Unreachable(why),
        // No such database, schema, function.
        "3D000" | "3F000" | "42883" => {
            Fault::NotAStore(format!("a PostgreSQL without limiter's schema ({why})"))
        }
        _ => Fault::Refused(why),
    }
}
