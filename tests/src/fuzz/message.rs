//! Checks the messages about wrong input.

/// Panics unless the message is one line without control characters.
pub(super) fn expect_one_line(message: &str) {
    assert!(!message.is_empty(), "the error has no message");
    let torn = message.chars().any(char::is_control);
    assert!(!torn, "not a line: {message:?}");
}
