//! A hostile server that claims to be Redis.

/// The beginning of its URL.
pub const SCHEME: &str = "redis://";
/// A part of the request that identifies the server, and the answer.
pub const ASKED: &str = "\r\nINFO\r\n";
pub const INFO: &str = "$42\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n";

/// Hostile replies: the beginning, and the part that is repeated.
pub const HOSTILE: &[(&str, &str)] = &[
    ("$536870912\r\n", "x"),
    ("+", "x"),
    ("*100000000\r\n", ":1\r\n"),
    ("*700000\r\n", "$9\r\n123456789\r\n"),
    ("*1\r\n*1\r\n*1\r\n*700000\r\n", "*1\r\n+\r\n"),
    ("", "*1\r\n"),
];
