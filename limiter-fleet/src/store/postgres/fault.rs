//! The errors of PostgreSQL.

use std::{error::Error as _, io};

use tokio_postgres::{
    Error,
    error::{DbError, SqlState},
};

use crate::store::{error::Fault, options::Target, socket::TOO_LONG};

pub(super) fn of_socket(target: &Target, error: &io::Error) -> Fault {
    Fault::Unreachable(target.quoted(&error.to_string()))
}

/// Converts an error of the client.
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

fn of_server(target: &Target, error: &DbError) -> Fault {
    let code = error.code();
    let why = target.quoted(&format!("{} {}", code.code(), error.message()));
    if [
        &SqlState::INVALID_PASSWORD,
        &SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
    ]
    .contains(&code)
    {
        Fault::Denied
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        Fault::Forbidden(why)
    } else if [&SqlState::DISK_FULL, &SqlState::OUT_OF_MEMORY].contains(&code) {
        Fault::Full
    } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        Fault::Replica
    } else if [
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::CANNOT_CONNECT_NOW,
    ]
    .contains(&code)
    {
        Fault::Unreachable(why)
    } else if [
        &SqlState::INVALID_CATALOG_NAME,
        &SqlState::INVALID_SCHEMA_NAME,
        &SqlState::UNDEFINED_FUNCTION,
    ]
    .contains(&code)
    {
        Fault::NotAStore(format!("a PostgreSQL without limiter's schema ({why})"))
    } else {
        Fault::Refused(why)
    }
}
