//! Generates structured frames byte by byte, so that every field may be wrong, and damages them.

use arbitrary::{Result, Unstructured};

/// The shortest frame that the kernel accepts in a test-run, and the longest one of the tests.
const LENGTHS: (usize, usize) = (14, 1_514);

/// Values that frames take besides random ones.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Sources.
    pub ipv4: Vec<[u8; 4]>,
    /// Sources.
    pub ipv6: Vec<u128>,
    /// Source and destination ports.
    pub ports: Vec<u16>,
    /// Bytes after the transport header.
    pub payloads: Vec<usize>,
}

/// A value of the pool, or any value.
fn any_of<T: for<'a> arbitrary::Arbitrary<'a> + Copy>(
    u: &mut Unstructured<'_>,
    pool: &[T],
) -> Result<T> {
    let other = u.arbitrary()?;
    Ok(*u.choose(&[pool, &[other]].concat())?)
}

/// True in one of `of` cases.
fn seldom(u: &mut Unstructured<'_>, turns: u8) -> Result<bool> {
    // After the last byte, everything is valid.
    Ok(!u.is_empty() && u.arbitrary::<u8>()? % turns == turns - 1)
}

/// A frame. Few bytes give a valid frame.
pub fn frame(u: &mut Unstructured<'_>, pool: &Pool) -> Result<Vec<u8>> {
    let mut frame = vec![2; 12];
    frame[11] = mac(u)?;
    if seldom(u, 32)? {
        let length = u.int_in_range(0..=100)?;
        frame.extend((0..length).map(|_| u.arbitrary().unwrap_or(0_u8)));
    } else {
        tags(u, &mut frame)?;
        network(u, pool, &mut frame)?;
    }
    if seldom(u, 4)? {
        for _ in 0..u.int_in_range(1..=4)? {
            tear(u, &mut frame)?;
        }
    }
    frame.resize(frame.len().clamp(LENGTHS.0, LENGTHS.1), 0);
    Ok(frame)
}

/// The last byte of a hardware address.
fn mac(u: &mut Unstructured<'_>) -> Result<u8> {
    Ok(*u.choose(&[2, 2, 3, 4])?)
}

fn tags(u: &mut Unstructured<'_>, frame: &mut Vec<u8>) -> Result<()> {
    let number = *u.choose(&[0, 0, 0, 0, 1, 1, 2, 2, 3, 8, 9])?;
    for _ in 0..number {
        let kind: u16 = *u.choose(&[0x8100, 0x8100, 0x88a8, 0x88a8, 0x9100])?;
        frame.extend(kind.to_be_bytes());
        let tag: u16 = *u.choose(&[0, 20, 0x4014, 21, 0xe000, 0xffff])?;
        frame.extend(mostly(u, tag)?.to_be_bytes());
    }
    Ok(())
}

fn network(u: &mut Unstructured<'_>, pool: &Pool, frame: &mut Vec<u8>) -> Result<()> {
    match u.arbitrary::<u8>()? % 16 {
        0..=5 => {
            frame.extend([0x08, 0x00]);
            ipv4(u, pool, frame)
        }
        6..=12 => {
            frame.extend([0x86, 0xdd]);
            ipv6(u, pool, frame)
        }
        13 => {
            frame.extend([0x08, 0x06]);
            arp(u, pool, frame)
        }
        14 => {
            // MPLS, PPPoE, LLDP, MACsec, a length (802.3), Wake-on-LAN: IP may follow.
            let kind: u16 = *u.choose(&[0x8847, 0x8864, 0x88cc, 0x88e5, 0x0026, 0x0842])?;
            frame.extend(kind.to_be_bytes());
            frame.extend(u.arbitrary::<[u8; 6]>()?);
            ipv4(u, pool, frame)
        }
        _ => {
            // The EtherType of one IP version with a packet of the other.
            frame.extend([0x08, 0x00]);
            ipv6(u, pool, frame)
        }
    }
}

/// The right value, or seldom another one.
fn mostly<T: for<'a> arbitrary::Arbitrary<'a>>(u: &mut Unstructured<'_>, right: T) -> Result<T> {
    if seldom(u, 12)? {
        return u.arbitrary();
    }
    Ok(right)
}

fn ipv4(u: &mut Unstructured<'_>, pool: &Pool, frame: &mut Vec<u8>) -> Result<()> {
    let protocol = protocol(u)?;
    let behind = transport(u, pool, protocol)?;
    let options = if seldom(u, 6)? {
        u.int_in_range(1..=10)?
    } else {
        0
    };
    let first = mostly(u, 0x40 | (5 + options))?;
    let length = 20 + usize::from(options) * 4 + behind.len();
    let length = u16::try_from(length).unwrap();
    let length = *u.choose(&[length, length, length, length, length, length, 0, 20])?;
    let length = mostly(u, length)?;
    let fragment: u16 = if seldom(u, 6)? {
        *u.choose(&[0x2000, 0x2001, 1, 0x1fff, 0x4000, 0x8000, 0x2008])?
    } else {
        0
    };
    let source = if seldom(u, 6)? {
        [0; 4]
    } else {
        any_of(u, &pool.ipv4)?
    };
    frame.extend([first, *u.choose(&[0, 0xb8, 0x20, 4, 0xff])?]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 1]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([*u.choose(&[64, 64, 1, 6, 255])?, protocol, 0, 0]);
    frame.extend(source);
    frame.extend(match u.arbitrary::<u8>()? % 8 {
        0 => [224, 0, 0, 5],
        1 => [239, 1, 2, 3],
        last => [192, 0, 2, *u.choose(&[1, 1, 2, last])?],
    });
    frame.resize(frame.len() + usize::from(options) * 4, 1);
    frame.extend(behind);
    pad(u, frame)
}

fn ipv6(u: &mut Unstructured<'_>, pool: &Pool, frame: &mut Vec<u8>) -> Result<()> {
    let protocol = protocol(u)?;
    let behind = transport(u, pool, protocol)?;
    let mut kinds = Vec::new();
    if seldom(u, 3)? {
        for _ in 0..u.int_in_range(1..=10)? {
            kinds.push(*u.choose(&[0, 43, 44, 51, 60, 60, 0, 44, 135, 59])?);
        }
    }
    kinds.push(protocol);
    let mut chain = Vec::new();
    for (index, kind) in kinds[..kinds.len() - 1].iter().enumerate() {
        extension(u, *kind, kinds[index + 1], &mut chain)?;
    }
    let length = u16::try_from(chain.len() + behind.len()).unwrap();
    let length = *u.choose(&[length, length, length, length, length, length, 0, 8])?;
    let source = if seldom(u, 6)? {
        0
    } else {
        any_of(u, &pool.ipv6)?
    };
    let hops = *u.choose(&[64, 255, 255, 254, 1, 1])?;
    let traffic_class: u8 = *u.choose(&[0, 0xb8, 0x20, 4, 0xff])?;
    frame.extend([
        mostly(u, 0x60 | traffic_class >> 4)?,
        traffic_class << 4,
        0,
        0,
    ]);
    frame.extend(mostly(u, length)?.to_be_bytes());
    frame.extend([kinds[0], hops]);
    frame.extend(source.to_be_bytes());
    let network = *u.choose(&[0x2001_0db8_u128, 0x2001_0db8, 0xff02_0000, 0xff15_0000])?;
    let destination = network.rotate_right(32) | u128::from(u.arbitrary::<u8>()? % 4);
    frame.extend(destination.to_be_bytes());
    frame.extend(chain);
    frame.extend(behind);
    pad(u, frame)
}

fn extension(u: &mut Unstructured<'_>, kind: u8, next: u8, bytes: &mut Vec<u8>) -> Result<()> {
    let next = mostly(u, next)?;
    if kind == 44 {
        let place: u16 = *u.choose(&[0, 1, 1, 8, 9, 0xfff8, 6])?;
        bytes.extend([next, 0]);
        bytes.extend(place.to_be_bytes());
        bytes.extend([0, 0, 0, 1]);
        return Ok(());
    }
    let units = if seldom(u, 4)? {
        u.int_in_range(0..=6)?
    } else {
        u8::from(kind == 51)
    };
    let size = match kind {
        51 => (usize::from(units) + 2) * 4,
        _ => (usize::from(units) + 1) * 8,
    };
    let begin = bytes.len();
    bytes.extend([next, mostly(u, units)?]);
    bytes.resize(begin + size, 0);
    Ok(())
}

fn protocol(u: &mut Unstructured<'_>) -> Result<u8> {
    match u.arbitrary::<u8>()? % 16 {
        0..=3 => Ok(17),
        4..=6 => Ok(6),
        7 => Ok(*u.choose(&[2, 89, 112])?),
        8..=10 => Ok(58),
        11 => Ok(1),
        // SCTP, DCCP, UDP-Lite; IP in IP, GRE, ESP.
        12 | 13 => Ok(*u.choose(&[132, 33, 136])?),
        14 => Ok(*u.choose(&[4, 41, 47, 50, 59])?),
        _ => u.arbitrary(),
    }
}

fn transport(u: &mut Unstructured<'_>, pool: &Pool, protocol: u8) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (from, destination) = (any_of(u, &pool.ports)?, any_of(u, &pool.ports)?);
    let payload = *u.choose(&pool.payloads)?;
    match protocol {
        6 => {
            let flags = *u.choose(&[2_u8, 2, 18, 16, 0x82, 0xc2, 41, 4, 0])?;
            let flags = mostly(u, flags)?;
            bytes.extend([from.to_be_bytes(), destination.to_be_bytes()].concat());
            bytes.extend([1, 2, 3, 4, 5, 6, 7, 8, mostly(u, 0x50)?, flags]);
            bytes.extend([1, 0, 0, 0, 0, 0]);
        }
        17 | 33 | 132 | 136 => {
            bytes.extend([from.to_be_bytes(), destination.to_be_bytes()].concat());
            let length = u16::try_from(8 + payload).unwrap();
            let length = *u.choose(&[length, length, length, 0, 12])?;
            bytes.extend(mostly(u, length)?.to_be_bytes());
            bytes.extend([0, 0]);
            if protocol == 17 && seldom(u, 2)? {
                bytes.extend(dhcp(u)?);
            }
        }
        58 => bytes.extend([u.int_in_range(128..=154)?, 0, 0, 0, 0, 0, 0, 0]),
        41 => bytes.extend([0x60, 0, 0, 0, 0, 0, 59, 64]),
        _ => bytes.extend([u.arbitrary()?, 0, 0, 0, 0, 0, 0, 0]),
    }
    let fill = *u.choose(&[0x5a, 0x5a, 0x5b, 0])?;
    bytes.resize(bytes.len() + payload, fill);
    if payload > 0 && seldom(u, 3)? {
        let position = u.int_in_range(0..=payload.min(40) - 1)?;
        let length = bytes.len();
        bytes[length - payload + position] = u.arbitrary::<u8>()? % 2;
    }
    Ok(bytes)
}

/// The beginning of a message of DHCP, or of a DHCPv6 relay, up to the hardware address of the client.
fn dhcp(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 34];
    bytes[0] = *u.choose(&[1, 1, 12, 2])?;
    bytes[24] = *u.choose(&[0, 10])?;
    bytes[33] = mac(u)?;
    bytes.truncate(if seldom(u, 6)? { 33 } else { 34 });
    Ok(bytes)
}

fn arp(u: &mut Unstructured<'_>, pool: &Pool, frame: &mut Vec<u8>) -> Result<()> {
    frame.extend([0, 1, 8, 0, mostly(u, 6)?, mostly(u, 4)?, 0, 1]);
    frame.extend([2, 2, 2, 2, 2, mac(u)?]);
    let source = if seldom(u, 3)? {
        [0; 4]
    } else {
        any_of(u, &pool.ipv4)?
    };
    frame.extend(source);
    frame.extend([0; 6]);
    frame.extend([192, 0, 2, 1]);
    pad(u, frame)
}

/// Short frames are padded on the wire.
fn pad(u: &mut Unstructured<'_>, frame: &mut Vec<u8>) -> Result<()> {
    if frame.len() < 60 && u.arbitrary()? {
        frame.resize(60, u.arbitrary()?);
    }
    Ok(())
}

fn tear(u: &mut Unstructured<'_>, frame: &mut Vec<u8>) -> Result<()> {
    let last = frame.len().saturating_sub(1).max(12);
    let position = u.int_in_range(12..=last.min(120))?;
    match u.arbitrary::<u8>()? % 6 {
        0 => frame.truncate(position),
        1 | 2 => {
            if let Some(byte) = frame.get_mut(position) {
                *byte = u.arbitrary()?;
            }
        }
        3 => {
            if let Some(byte) = frame.get_mut(position) {
                *byte ^= 1 << (u.arbitrary::<u8>()? % 8);
            }
        }
        4 => {
            let bytes: [u8; 2] = u.arbitrary()?;
            let position = position.min(frame.len());
            frame.splice(position..position, bytes);
        }
        _ => {
            let end = (position + usize::from(u.arbitrary::<u8>()? % 8)).min(frame.len());
            frame.drain(position.min(end)..end);
        }
    }
    Ok(())
}
