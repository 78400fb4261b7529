//! The SSH session that a command is run in: limits may lock its user out.

use std::{fs, net::IpAddr};

/// What sshd tells the processes of a session, see ssh(1).
const VARIABLE: &str = "SSH_CONNECTION";

/// An SSH session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Address of the SSH client.
    pub client: IpAddr,
    /// Port of the SSH server.
    pub server_port: u16,
}

/// The SSH session that this process belongs to. `sudo` removes the variable, so the ancestors of this process are
/// asked too: without that the warning would never come where it is needed most.
#[must_use]
pub fn peer() -> Option<Session> {
    let own = std::env::var(VARIABLE).ok();
    own.and_then(|value| parse(&value))
        .or_else(|| ancestors().find_map(of_process))
}

fn of_process(process: u32) -> Option<Session> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    parse(variable(&environment)?)
}

/// The processes above this one, nearest first, without process 1.
fn ancestors() -> impl Iterator<Item = u32> {
    const MOST: usize = 20;
    let parent = |process: &u32| {
        let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
        parent_in(&stat).filter(|parent| *parent > 1)
    };
    std::iter::successors(Some(std::process::id()), parent)
        .skip(1)
        .take(MOST)
}

/// The parent in `/proc/<pid>/stat`: the second word after the name, which is in parentheses and may
/// have anything in it.
fn parent_in(stat: &[u8]) -> Option<u32> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The value of the variable in `/proc/<pid>/environ`.
fn variable(environment: &[u8]) -> Option<&str> {
    let value = environment.split(|byte| *byte == 0).find_map(|variable| {
        variable
            .strip_prefix(VARIABLE.as_bytes())?
            .strip_prefix(b"=")
    })?;
    std::str::from_utf8(value).ok()
}

/// `<client> <port> <server> <port>`.
fn parse(value: &str) -> Option<Session> {
    let words: Vec<&str> = value.split(' ').collect();
    let [client, client_port, server, server_port] = words[..] else {
        return None;
    };
    client_port.parse::<u16>().ok()?;
    address(server)?;
    Some(Session {
        client: address(client)?,
        server_port: server_port.parse().ok()?,
    })
}

/// An address without its zone. An IPv4 address mapped into IPv6, as a socket for both families has it, is IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    Some(address.parse::<IpAddr>().ok()?.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_as_sshd_writes_them() {
        for (value, client) in [
            ("198.51.100.7 50000 192.0.2.1 22", "198.51.100.7"),
            ("2001:db8::7 50000 2001:db8::1 22", "2001:db8::7"),
            (
                "::ffff:198.51.100.7 50000 ::ffff:192.0.2.1 22",
                "198.51.100.7",
            ),
            ("fe80::7%eth0 50000 fe80::1%eth0 22", "fe80::7"),
        ] {
            let expected = Session {
                client: client.parse().expect("an address"),
                server_port: 22,
            };
            assert_eq!(parse(value), Some(expected), "{value}");
        }
        for value in [
            "",
            "198.51.100.7 50000",
            "198.51.100.7 50000 192.0.2.1 x",
            "198.51.100.7 70000 192.0.2.1 22",
            "198.51.100.7 50000 192.0.2.1 22 9",
            "UNKNOWN 65535 UNKNOWN 65535",
        ] {
            assert_eq!(parse(value), None, "{value}");
        }
    }

    /// This test is its own child, below a process that has the variable and one that hides it.
    #[test]
    fn a_session_is_found_though_the_variable_is_hidden() {
        const CHILD: &str = "LIMITER_TEST_SESSION";
        if std::env::var_os(CHILD).is_some() {
            println!("{:?}", peer().map(|session| session.client));
            return;
        }
        let name =
            "kernel::probe::session::tests::a_session_is_found_though_the_variable_is_hidden";
        let line = "env -u SSH_CONNECTION \"$0\" --exact --nocapture \"$1\"; true";
        let output = std::process::Command::new("sh")
            .args(["-c", line])
            .arg(std::env::current_exe().expect("this test"))
            .arg(name)
            .env(CHILD, "1")
            .env(VARIABLE, "198.51.100.7 50000 192.0.2.1 22")
            .output()
            .expect("a shell");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.contains("Some(198.51.100.7)"), "{output}");
    }

    #[test]
    fn parents_and_variables_of_processes() {
        assert_eq!(parent_in(b"42 (bash) S 7 42 42 0"), Some(7));
        assert_eq!(parent_in(b"42 (a) S 9 (\xff) S 7 42"), Some(7));
        assert_eq!(parent_in(b"42 (bash"), None);
        assert_eq!(parent_in(b""), None);
        let environment = b"A=1\0NOT_SSH_CONNECTION=x\0SSH_CONNECTION=a b\0Z=\xff\0";
        assert_eq!(variable(environment), Some("a b"));
        assert_eq!(variable(b"SSH_CONNECTIONS=x\0"), None);
        assert_eq!(variable(b""), None);
    }

    #[test]
    fn an_ancestor_of_this_process_is_found() {
        let parent = std::os::unix::process::parent_id();
        assert!(parent <= 1 || ancestors().next() == Some(parent));
        assert!(ancestors().all(|process| process > 1));
    }
}
