//! A hostile server that claims to be PostgreSQL.

/// The beginning of its URL.
pub const SCHEME: &str = "postgres://edge:geheim@";
/// A part of the request that begins a session, and the answer: no password, and ready.
pub const ASKED: &str = "user\0edge";
pub const INFO: &str = "R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// Hostile replies: the beginning, and the part that is repeated.
pub const HOSTILE: &[(&str, &str)] = &[
    // A message of 2 GB; of the kind that asks for a password, too.
    ("T\x7f\x7f\x7f\x7f", "x"),
    ("R\x7f\x7f\x7f\x7f", "x"),
    // Rows without columns, after the statement is accepted.
    ("1\0\0\0\x042\0\0\0\x04T\0\0\0\x06\0\0", "D\0\0\0\x06\0\0"),
    ("", "D\0\0\0\x06\0\0"),
    // Messages that may come at any time.
    ("", "N\0\0\0\x05\0"),
    ("", "S\0\0\0\x08a\0b\0"),
    ("", "A\0\0\0\x0c\0\0\0\x01a\0b\0"),
];
