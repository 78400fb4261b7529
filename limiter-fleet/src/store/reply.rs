//! Checks the size of a reply before the client reads it.
//!
//! The client's parser buffers everything that a server sends until the reply is complete. This module reads only the
//! announced lengths, and refuses a reply that cannot be a valid answer.

/// Maximum bytes of the values in one reply. The longest valid reply is a list of 100,000 prefixes with their hosts.
/// `lists.lua` limits both, to 506 bytes per prefix.
const REPLY: usize = 51_000_000;
/// Bytes that the client needs per value in addition to its content.
const VALUE: usize = 64;
/// Maximum bytes of a text with an announced length.
const TEXT: usize = 1 << 20;
/// Maximum bytes of any other line.
const LINE: usize = 64 << 10;
/// Maximum depth of nested arrays.
const DEPTH: usize = 8;

/// The reason why a reply is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(&'static str);

/// The state of the reply being read.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Bytes that the reply has taken.
    taken: usize,
    /// Values missing in each open array, the innermost last.
    wanted: Vec<usize>,
    at: At,
}

#[derive(Debug, Default)]
enum At {
    /// Before a value.
    #[default]
    Kind,
    /// In the first line of a value. Fields: its kind, and the bytes after the kind.
    Line(u8, Vec<u8>),
    /// In a text, with this many bytes left.
    Text(usize),
}

impl Reply {
    /// Checks the next bytes from a server.
    pub fn read(&mut self, mut bytes: &[u8]) -> Result<(), Refused> {
        while let Some((first, rest)) = bytes.split_first() {
            let read = match self.at {
                At::Text(left) => left.min(1 + rest.len()),
                _ => 1,
            };
            bytes = &bytes[read..];
            self.take(read)?;
            match &mut self.at {
                At::Kind if b"+-:$*".contains(first) => {
                    self.at = At::Line(*first, Vec::new());
                    self.take(VALUE)?;
                }
                At::Kind => return Err(Refused("a value of a kind that was not requested")),
                At::Line(kind, line) => {
                    line.push(*first);
                    if line.ends_with(b"\r\n") {
                        let (kind, line) = (*kind, std::mem::take(line));
                        self.begin(kind, &line[..line.len() - 2])?;
                    } else if line.len() > LINE {
                        return Err(Refused("a line that is too long"));
                    }
                }
                At::Text(left) => {
                    *left -= read;
                    if *left == 0 {
                        self.end();
                    }
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<(), Refused> {
        self.taken += bytes;
        if self.taken > REPLY {
            return Err(Refused("a reply that is too long"));
        }
        Ok(())
    }

    /// Starts a value after its first line.
    fn begin(&mut self, kind: u8, line: &[u8]) -> Result<(), Refused> {
        if !b"$*".contains(&kind) {
            self.end();
            return Ok(());
        }
        match (kind, length(line)?) {
            (_, None) | (b'*', Some(0)) => self.end(),
            (b'$', Some(text)) if text <= TEXT => self.at = At::Text(text + 2),
            (b'$', _) => return Err(Refused("a text that is too long")),
            (_, Some(values)) => {
                if values > (REPLY - self.taken) / VALUE {
                    return Err(Refused("an array of too many values"));
                }
                if self.wanted.len() == DEPTH {
                    return Err(Refused("arrays too deep within each other"));
                }
                // The client reserves room for at least four values.
                self.take(4 * VALUE)?;
                self.wanted.push(values);
                self.at = At::Kind;
            }
        }
        Ok(())
    }

    /// Ends a value, and the arrays that it completes.
    fn end(&mut self) {
        self.at = At::Kind;
        while let Some(wanted) = self.wanted.last_mut() {
            *wanted -= 1;
            if *wanted > 0 {
                return;
            }
            self.wanted.pop();
        }
        self.taken = 0;
    }
}

/// Parses a length; none for a null value.
fn length(line: &[u8]) -> Result<Option<usize>, Refused> {
    if line == b"-1" {
        return Ok(None);
    }
    let digits = line.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(line).ok().filter(|_| digits);
    let length = text.and_then(|text| text.parse().ok());
    length.map(Some).ok_or(Refused("an invalid length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reply: &str) -> Result<Reply, Refused> {
        let mut whole = Reply::default();
        whole.read(reply.as_bytes())?;
        // The result does not depend on the pieces in which the reply arrives.
        let mut in_pieces = Reply::default();
        for byte in reply.as_bytes() {
            in_pieces.read(std::slice::from_ref(byte))?;
        }
        assert_eq!(format!("{whole:?}"), format!("{in_pieces:?}"), "{reply:?}");
        Ok(whole)
    }

    #[test]
    fn client_value_is_no_larger_than_its_counted_size() {
        assert!(size_of::<redis::Value>() <= VALUE);
    }

    #[test]
    fn complete_replies_leave_no_reader_state() {
        for reply in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":5\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "$5\r\n*9\r\n$\r\n",
            "*2\r\n*2\r\n:1\r\n*0\r\n$2\r\nab\r\n",
            "+a\rb\nc\r\n+\r\n:1\r\n",
        ] {
            let read = read(reply).expect(reply);
            assert_eq!((read.taken, read.wanted.len()), (0, 0), "{reply:?}");
            assert!(matches!(read.at, At::Kind), "{reply:?}");
        }
    }

    #[test]
    fn longest_allowed_list_is_read() {
        let prefix = "x".repeat(43);
        let value = "x".repeat(320);
        let entry = format!("$43\r\n{prefix}\r\n$320\r\n{value}\r\n");
        let all = "*3\r\n:1\r\n:2\r\n*200001\r\n:100000\r\n".to_owned() + &entry.repeat(100_000);
        let mut reply = Reply::default();
        assert_eq!(reply.read(all.as_bytes()), Ok(()));
        assert_eq!(reply.taken, 0);
    }

    #[test]
    fn overlong_or_invalid_reply_header_is_refused() {
        for announced in [
            "$1048577\r\n",
            "$536870912\r\n",
            "*100000000\r\n",
            "*2\r\n*700000\r\n:1\r\n$99999999\r\n",
            "*18446744073709551615\r\n",
            "*99999999999999999999\r\n",
            "$-2\r\n",
            "*+5\r\n",
            "* 5\r\n",
            "$\r\n",
            "%1\r\n",
            "HTTP/1.1 400 Bad Request\r\n",
            &"*2\r\n".repeat(9),
        ] {
            assert!(read(announced).is_err(), "{announced:?}");
        }
    }

    #[test]
    fn endless_reply_is_refused_within_its_memory_bound() {
        let endless = |begin: &str, again: &str| {
            let mut reply = Reply::default();
            reply.read(begin.as_bytes()).expect(begin);
            let part = again.repeat((1 << 16) / again.len());
            let mut bytes = 0;
            while reply.read(part.as_bytes()).is_ok() {
                bytes += part.len();
                assert!(bytes <= REPLY, "{begin:?}");
            }
            bytes
        };
        assert!(endless("+", "x") <= LINE);
        assert!(
            endless(
                "*700000\r\n",
                "$90\r\n123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890\r\n"
            ) <= REPLY
        );
        assert!(endless("*790000\r\n", "*0\r\n*1\r\n+\r\n") <= REPLY / 16);
    }
}
