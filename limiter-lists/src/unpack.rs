//! The text of a list: unpacked, and decoded.

use std::{borrow::Cow, fmt, io::Read};

use flate2::read::MultiGzDecoder;

use crate::error::Error;

/// A way of packing that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// A ZIP archive.
    Zip,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
    /// Zstandard.
    Zstd,
    /// 7-Zip.
    SevenZip,
}

impl Packed {
    /// The way in which bytes are packed, by their beginning.
    pub fn by(bytes: &[u8]) -> Option<Self> {
        let mut others = OTHERS.iter();
        let found = others.find(|(magic, _)| bytes.starts_with(magic));
        found.map(|(_, packed)| *packed)
    }
}

impl fmt::Display for Packed {
    fn fmt(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str(match self {
            Self::Zip => "a ZIP archive",
            Self::Bzip2 => "packed with bzip2",
            Self::Xz => "packed with xz",
            Self::Zstd => "packed with Zstandard",
            Self::SevenZip => "a 7-Zip archive",
        })
    }
}

const GZIP: &[u8] = &[0x1f, 0x8b, 8];
const OTHERS: [(&[u8], Packed); 5] = [
    (b"PK\x03\x04", Packed::Zip),
    (b"BZh", Packed::Bzip2),
    (b"\xfd7zXZ\0", Packed::Xz),
    (b"\x28\xb5\x2f\xfd", Packed::Zstd),
    (b"7z\xbc\xaf\x27\x1c", Packed::SevenZip),
];

/// The text of a list of at most `most` bytes, also after unpacking. Characters of another encoding than UTF-8, or
/// UTF-16 with a byte order mark, are replaced: in addresses there are none.
pub fn text(bytes: &[u8], most: u64) -> Result<Cow<'_, str>, Error> {
    let is_packed = bytes.starts_with(GZIP);
    let bytes = match is_packed {
        true => Cow::Owned(gunzip(bytes, most)?),
        false => Cow::Borrowed(bytes),
    };
    if bytes.len() as u64 > most {
        return Err(Error::TooLong(most, is_packed));
    }
    if let Some(packed) = Packed::by(&bytes) {
        return Err(Error::Packed(packed));
    }
    let (pairs, decode): (_, fn([u8; 2]) -> u16) = match &*bytes {
        [0xff, 0xfe, rest @ ..] => (rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => (rest, u16::from_be_bytes),
        _ => return plain(bytes),
    };
    let units = pairs.chunks_exact(2).map(|pair| decode([pair[0], pair[1]]));
    let units: Vec<_> = units.collect();
    let text = String::from_utf16_lossy(&units);
    plain(Cow::Owned(text.into_bytes()))
}

fn plain(bytes: Cow<[u8]>) -> Result<Cow<str>, Error> {
    if let Some(place) = bytes.iter().position(|byte| *byte == 0) {
        return Err(Error::NotText(place));
    }
    let text = match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Cow::Owned(text),
            Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        },
    };
    Ok(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_start_matches('\u{feff}')),
        Cow::Owned(text) => Cow::Owned(text.trim_start_matches('\u{feff}').to_owned()),
    })
}

fn gunzip(bytes: &[u8], most: u64) -> Result<Vec<u8>, Error> {
    let mut unpacked = Vec::new();
    let mut decoder = MultiGzDecoder::new(bytes).take(most.saturating_add(1));
    match decoder.read_to_end(&mut unpacked) {
        Ok(_) => Ok(unpacked),
        Err(error) => Err(Error::Damaged(error.to_string())),
    }
}
