//! Names of limits, lists, fleets and interfaces.

use super::{
    Direction, Invalid, NONE,
    control::{CONTROL_LIMIT, CONTROL_ROUTES, CONTROL_TOTAL, is_control},
    ensure, invalid,
    reader::{Section, Setting, array, quoted, text},
};

/// The most characters of a name.
const NAME_LONGEST: usize = 32;

/// Checks a name. Names are words, because they appear in tables, metrics and on command lines.
pub fn name(text: &str) -> Result<(), Invalid> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    ensure!(
        (1..=NAME_LONGEST).contains(&text.len()) && text.chars().all(allowed),
        "'{text}' is not a name: write 1 to {NAME_LONGEST} letters, digits, '-', '_' or '.'"
    );
    ensure!(
        !is_control(text),
        "'{text}' is the name of the built-in limit on control traffic: write another name"
    );
    Ok(())
}

/// Checks the name of a fleet. Hosts with the same name share.
pub fn fleet(text: &str) -> Result<String, Invalid> {
    ensure!(
        text != NONE,
        "'{NONE}' stands for no fleet: write another name, or leave the fleet out"
    );
    name(text).map(|()| text.to_owned()).map_err(|_| {
        invalid!("'{}' is not the name of a fleet: write 1 to {NAME_LONGEST} letters, digits, '-', '_' or '.', and not '{CONTROL_LIMIT}', '{CONTROL_ROUTES}' or '{CONTROL_TOTAL}'", text.escape_debug())
    })
}

/// Names of interfaces, each once.
#[derive(Clone, Debug)]
pub struct Interfaces(Vec<String>);

impl Setting for Interfaces {
    fn read(section: &mut Section, key: &str) -> Option<Self> {
        let names = section.each(key, |value| text(value, interface))?;
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                let why = format!("'{name}' is listed twice: remove one");
                section.refuse(key, &why);
            }
        }
        Some(Self(names))
    }

    fn written(&self) -> Option<String> {
        let names = self.0.iter();
        (!self.0.is_empty()).then(|| array(names.map(quoted)))
    }

    fn words(&self) -> String {
        self.0.words()
    }
}

crate::read_as!(Interfaces: Vec<String>);

/// Behind the name of an interface, it stands for the attachment to the packets that the interface sends. The kernel
/// gives no interface a colon.
pub const OUT: &str = ":out";

/// The name of the interface, and the direction, of an attachment.
pub fn direction_of(name: &str) -> (&str, Direction) {
    let outward = name.strip_suffix(OUT);
    outward.map_or((name, Direction::In), |name| (name, Direction::Out))
}

/// Checks that the kernel accepts the name of an interface, or an alternative name; [`OUT`] may follow.
pub fn interface(text: &str) -> Result<String, Invalid> {
    /// `ALTIFNAMSIZ` less the final zero: that of an alternative name.
    const LONGEST: usize = 127;
    let allowed = |c: char| !(c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    let (name, _) = direction_of(text);
    ensure!(
        !["", ".", ".."].contains(&name) && name.chars().all(allowed),
        "'{}' is not the name of an interface: `ip link` lists all interfaces",
        text.escape_debug()
    );
    ensure!(
        name.parse::<std::net::IpAddr>().is_err(),
        "'{text}' is an address where the name of an interface belongs: write the interface in front of it, as in eth0"
    );
    ensure!(
        name.len() <= LONGEST,
        "this is too long for the name of an interface: write at most {LONGEST} characters"
    );
    Ok(text.to_owned())
}
