//! Keys of two addresses: IPv4 reads back, and IPv6 is hashed by SipHash-1-3 with 128 bits.

use limiter_common::table::{
    Seed,
    key::{Address, BY_PAIR, KeyMask, Words},
    nat64::Nat64,
    pair,
};

/// Words of consecutive bytes from `first` on, of little endian as SipHash reads them.
fn words(first: u8) -> [u64; 5] {
    let bytes: Vec<u8> = (first..first + 40).collect();
    std::array::from_fn(|word| u64::from_le_bytes(std::array::from_fn(|i| bytes[8 * word + i])))
}

/// The results come from a program written from the paper, which also gives the published results of SipHash-2-4 of 64
/// and 128 bits. The first key is that of the published vectors, the bytes 0 to 15.
#[test]
fn hash_is_siphash_1_3_of_128_bits() {
    let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    for ([first, second], input, expected) in [
        (
            key,
            words(0),
            [0x13b4_b93e_5420_5750, 0x38f9_eed9_fa3c_0bd5],
        ),
        (key, [0; 5], [0x1777_8cfb_37f8_dea3, 0x1c4f_c077_dc97_5024]),
        (
            [u64::MAX, 0],
            words(100),
            [0xea4e_37c3_9f1a_adac, 0x0f47_c28a_dd68_cade],
        ),
    ] {
        // The other words of the seed are not part of the key.
        for rest in [0, 7] {
            let seed = Seed([first, second, rest, rest]);
            assert_eq!(pair::hash(&seed, input), expected, "{input:x?}");
        }
    }
}

fn mask() -> KeyMask {
    let destination = KeyMask::prefixes(31, 127);
    KeyMask {
        by: BY_PAIR,
        destination_ipv4: destination.ipv4,
        destination_ipv6: destination.ipv6,
        ..KeyMask::prefixes(24, 64)
    }
}

fn words_of(source: &Address, destination: &Address, flow: u64) -> Words {
    pair::words(
        &mask(),
        source,
        destination,
        flow,
        &Seed::KNOWN,
        &Nat64::WELL_KNOWN,
    )
}

#[test]
fn ipv4_addresses_and_flow_read_back_under_the_masks() {
    let address = |octets: [u8; 4]| u32::from_ne_bytes(octets);
    let (source, destination) = (address([192, 0, 2, 7]), address([198, 51, 100, 9]));
    for flow in [
        0,
        pair::flow(255, 65_535, 65_535),
        pair::flow(17, 4_000, 53),
    ] {
        let words = words_of(&Address::ipv4(source), &Address::ipv4(destination), flow);
        let masked = (address([192, 0, 2, 0]), address([198, 51, 100, 8]), flow);
        assert_eq!(pair::addresses(words), Some(masked));
    }
}

#[test]
fn ipv6_addresses_are_hashed_under_the_masks() {
    let address = |first: u64, second: u64| Address::ipv6([first.to_be(), second.to_be()]);
    let key = |source: Address, destination: Address, flow| {
        let words = words_of(&source, &destination, flow);
        assert_eq!(pair::addresses(words), None);
        words
    };
    let source = |host| address(0x2001_0db8_0000_0000, host);
    let destination = |host| address(0x2001_0db8_0001_0000, host);
    let first = key(source(1), destination(2), 0);
    assert_eq!(key(source(9), destination(3), 0), first);
    for other in [
        key(address(0x2001_0db8_0000_0001, 1), destination(2), 0),
        key(source(1), destination(4), 0),
        key(source(1), destination(2), pair::flow(6, 0, 0)),
        key(source(1), destination(2), pair::flow(0, 1, 0)),
        key(source(1), destination(2), pair::flow(0, 0, 1)),
    ] {
        assert_ne!(other, first);
    }
    // With masks that keep both addresses whole, only their order differs.
    let whole = KeyMask {
        destination_ipv6: KeyMask::prefixes(32, 128).ipv6,
        by: BY_PAIR,
        ..KeyMask::prefixes(32, 128)
    };
    let whole_key = |source: Address, destination: Address| {
        pair::words(
            &whole,
            &source,
            &destination,
            0,
            &Seed::KNOWN,
            &Nat64::WELL_KNOWN,
        )
    };
    assert_ne!(
        whole_key(source(1), destination(2)),
        whole_key(destination(2), source(1))
    );
}
