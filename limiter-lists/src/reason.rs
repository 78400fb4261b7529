//! The reasons why a part of a list is left out.

use std::fmt;

/// The reason why a line, row or element is not among the entries of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is no address, prefix or range.
    NotAddress,
    /// Text behind the address is no comment.
    Text,
    /// It can mean more than one thing.
    Ambiguous,
    /// The ends of a range are of two families or in the wrong order, or do not agree with its length.
    WrongRange,
    /// The length of a prefix, or its netmask, does not exist.
    WrongLength,
    /// Numbers begin with 0, which some programs read as octal.
    LeadingZeros,
    /// The address has a port.
    Port,
    /// The address has a zone, which is an interface of another host.
    Zone,
    /// The row or the document lacks the field.
    NoField,
    /// The list says that it is not to be banned.
    NotBan,
    /// It is a rule, or an element that is more than an address.
    OtherKind,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 11] = [
        Self::NotAddress,
        Self::Text,
        Self::Ambiguous,
        Self::WrongRange,
        Self::WrongLength,
        Self::LeadingZeros,
        Self::Port,
        Self::Zone,
        Self::NoField,
        Self::NotBan,
        Self::OtherKind,
    ];

    /// Returns true if it was not understood; false if it was understood, and is no entry.
    pub fn is_mistake(self) -> bool {
        self != Self::NotBan
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str(match self {
            Self::NotAddress => "not an address, prefix or range",
            Self::Text => "text behind the address that is not a comment",
            Self::Ambiguous => {
                "several addresses, or a number behind one: set format = \"ranges\" for first and last addresses, \"networks\" for lengths, or \"table\" with field for other columns"
            }
            Self::WrongRange => "a range whose ends or length do not fit together",
            Self::WrongLength => "a length or netmask that does not exist",
            Self::LeadingZeros => "numbers with leading zeros, which may be octal",
            Self::Port => "an address with a port",
            Self::Zone => "an address with a zone",
            Self::NoField => "without the field, with several possible ones, or with other columns than the header",
            Self::NotBan => "marked as not to be banned",
            Self::OtherKind => "a rule, or an element that is more than an address",
        })
    }
}
