//! Programs of the benchmark: a sender that gives every packet another source, and references: a bare verdict, a simple
//! limiter, and a program that only reads one cache line of the packet's source.
//!
//! The kernel's test-run runs the sender with live frames, and transmits the packets that it redirects.
#![no_std]
#![no_main]

use aya_ebpf::{
    bindings::{
        BPF_NOEXIST,
        xdp_action::{XDP_ABORTED, XDP_DROP, XDP_PASS},
    },
    btf_maps::{Array, LruHashMap},
    helpers::generated::{bpf_ktime_get_ns, bpf_redirect},
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use limiter_common::{
    policy::{Parsed, parse},
    table::word::Word as _,
};
use limiter_ebpf::{atomic::Word, constants::constants, maps::SETS, packet::Cursor};
use network_types::{
    eth::{EthHdr, EtherType},
    ip::{Ipv4Hdr, Ipv6Hdr},
};

/// The packets to send and their destination.
#[repr(C)]
pub struct Flow {
    /// Number of the next packet.
    next: u64,
    /// Number of sources, a power of two, less one.
    mask: u64,
    /// Added to a source's number to get 32 bits of its address.
    first: u64,
    /// Index of the outgoing interface.
    interface: u64,
    /// Sum of the IPv4 header's 16-bit words without source and checksum.
    header_sum: u64,
    /// 1: once each source has sent a packet, half of the packets are from one source, a quarter from 4, and so on.
    heavy: u64,
}

#[btf_map]
static FLOW: Array<Flow, 1> = Array::new();

/// 2^32 divided by the golden ratio. Odd, so that multiplication is a bijection of the numbers below a power of two: it
/// gives every source once, with consecutive ones far apart.
const SPREAD: u64 = 0x9e37_79b1;

/// The sources of a heavy flow are 4 to this power at most.
const HEAVY_LEVELS: u32 = 10;

/// Bits that look random: multiplications by odd constants, each followed by a fold of the upper half onto the lower.
#[inline(always)]
fn mixed(number: u64) -> u64 {
    let fold = |word: u64| word ^ word >> 32;
    fold(fold(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

impl Flow {
    /// The varying 32 bits of the next packet's source address.
    #[inline(always)]
    fn draw(&mut self) -> u32 {
        let mut mask = self.mask;
        let mut spread = self.next.wrapping_mul(SPREAD);
        if self.heavy != 0 && self.next > mask {
            spread = mixed(self.next);
            mask = 0;
            // From the lowest bit on, each zero is a level.
            for level in 0..HEAVY_LEVELS {
                if spread >> level & 1 != 0 {
                    break;
                }
                mask = mask << 2 | 3;
            }
            spread >>= HEAVY_LEVELS;
        }
        self.next += 1;
        (self.first + (spread & mask)) as u32
    }
}

#[xdp]
pub fn send_ipv4(context: XdpContext) -> u32 {
    let mut packet = Cursor::new(&context);
    let (Some(_), Some(header), Some(flow)) = (
        packet.take::<EthHdr>(),
        packet.take::<Ipv4Hdr>(),
        FLOW.get_ptr_mut(0),
    ) else {
        return XDP_ABORTED;
    };
    // SAFETY: a map value that only one CPU uses, and fields of a header that `take` has checked. The helper takes
    // numbers.
    unsafe {
        let source = (*flow).draw();
        write(&raw const (*header).src_addr, source.to_be());
        let sum = (*flow).header_sum as u32 + (source >> 16) + (source & 0xffff);
        // Twice: adding the carry may give another carry.
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        write(&raw const (*header).check, (!sum as u16).to_be());
        bpf_redirect((*flow).interface as u32, 0) as u32
    }
}

/// Sends IPv6 packets. The second word of the address varies the /64. The last word is its complement, so that the
/// packet's checksum does not change.
#[xdp]
pub fn send_ipv6(context: XdpContext) -> u32 {
    let mut packet = Cursor::new(&context);
    let (Some(_), Some(header), Some(flow)) = (
        packet.take::<EthHdr>(),
        packet.take::<Ipv6Hdr>(),
        FLOW.get_ptr_mut(0),
    ) else {
        return XDP_ABORTED;
    };
    // SAFETY: a map value that only one CPU uses, and fields of a header that `take` has checked. The helper takes
    // numbers.
    unsafe {
        let source = (*flow).draw();
        let words = (&raw const (*header).src_addr).cast::<u32>();
        write(words.add(1), source.to_be());
        write(words.add(3), (!source).to_be());
        bpf_redirect((*flow).interface as u32, 0) as u32
    }
}

/// Writes into the packet, at any alignment.
///
/// # Safety
/// `field` has room for the value within the packet.
#[inline(always)]
unsafe fn write<F, T>(field: *const F, value: T) {
    // SAFETY: the caller vouches for the room.
    unsafe { field.cast_mut().cast::<T>().write_unaligned(value) }
}

/// The reference's rate and burst, in nanoseconds.
#[repr(C)]
pub struct Quota {
    /// Cost of a packet.
    cost: u64,
    /// Depth of a bucket.
    tau: u64,
}

/// Filled by the loader.
#[unsafe(no_mangle)]
static QUOTA: Quota = Quota { cost: 1, tau: 1 };

/// The TAT of each IPv4 source, in nanoseconds.
#[btf_map]
static LRU_IPV4: LruHashMap<u32, u64, 1024> = LruHashMap::new();

/// The TAT of each IPv6 /64, in nanoseconds.
#[btf_map]
static LRU_IPV6: LruHashMap<[u32; 2], u64, 1024> = LruHashMap::new();

/// A textbook limiter: LRU hash, clock, compare-and-swap. It has neither counters nor options.
#[xdp]
pub fn reference(context: XdpContext) -> u32 {
    const IPV4: u16 = EtherType::Ipv4 as u16;
    const IPV6: u16 = EtherType::Ipv6 as u16;
    let mut packet = Cursor::new(&context);
    let Some(ethernet) = packet.take::<EthHdr>() else {
        return XDP_PASS;
    };
    // SAFETY: `take` and `header` have checked the headers.
    unsafe {
        match (&raw const (*ethernet).ether_type).read_unaligned() {
            IPV4 => match packet.header::<Ipv4Hdr>() {
                Some(header) => {
                    let source = (&raw const (*header).src_addr).cast::<u32>();
                    let source = source.read_unaligned();
                    decide(LRU_IPV4.get_ptr_mut(source), |full_at| {
                        let _ = LRU_IPV4.insert(source, full_at, BPF_NOEXIST.into());
                    })
                }
                None => XDP_DROP,
            },
            IPV6 => match packet.header::<Ipv6Hdr>() {
                Some(header) => {
                    let source = (&raw const (*header).src_addr).cast::<[u32; 2]>();
                    let source = source.read_unaligned();
                    decide(LRU_IPV6.get_ptr_mut(source), |full_at| {
                        let _ = LRU_IPV6.insert(source, full_at, BPF_NOEXIST.into());
                    })
                }
                None => XDP_DROP,
            },
            _ => XDP_PASS,
        }
    }
}

#[inline(always)]
fn decide(bucket: Option<*mut u64>, insert: impl FnOnce(u64)) -> u32 {
    const TRIES: u32 = 8;
    // SAFETY: the helper has no preconditions, and the quota is initialised.
    let (now, cost, tau) = unsafe {
        (
            bpf_ktime_get_ns(),
            (&raw const QUOTA.cost).read_volatile(),
            (&raw const QUOTA.tau).read_volatile(),
        )
    };
    let Some(bucket) = bucket else {
        insert(now + cost);
        return XDP_PASS;
    };
    // SAFETY: an aligned map value.
    let bucket = unsafe { Word::at(bucket) };
    for _ in 0..TRIES {
        let seen = bucket.load();
        let full_at = seen.max(now) + cost;
        if full_at - now > tau {
            return XDP_DROP;
        }
        if bucket.swap(seen, full_at) {
            return XDP_PASS;
        }
    }
    XDP_DROP
}

#[xdp]
pub fn drop_only(_context: XdpContext) -> u32 {
    XDP_DROP
}

#[xdp]
pub fn pass_only(_context: XdpContext) -> u32 {
    XDP_PASS
}

/// Reads the cache line of the packet's source and drops the packet.
#[xdp]
pub fn one_line_drop(context: XdpContext) -> u32 {
    one_line(&context, XDP_DROP, XDP_PASS)
}

/// Reads the cache line of the packet's source and passes the packet.
#[xdp]
pub fn one_line_pass(context: XdpContext) -> u32 {
    one_line(&context, XDP_PASS, XDP_DROP)
}

/// The least work of a limiter by source: parses the packet and reads one word of the source's set. The verdict depends
/// on the word, so that the read is not optimized away. The word is always 0.
#[inline(always)]
fn one_line(context: &XdpContext, verdict: u32, otherwise: u32) -> u32 {
    const NEVER: u64 = u64::MAX;
    let source = match parse(&mut Cursor::new(context)) {
        Parsed::Ipv4(source) | Parsed::Ipv6(source) => source,
        Parsed::Arp(_) | Parsed::NotIp | Parsed::Malformed | Parsed::TooManyTags => {
            return XDP_PASS;
        }
    };
    let Some(limit) = constants().limit(0) else {
        return XDP_ABORTED;
    };
    let key = limit.mask.key(0, &source, 0, &constants().nat64);
    let home = constants().seed.home(&key, constants().sets);
    let Some(set) = SETS.get_ptr_mut(home.set) else {
        return XDP_ABORTED;
    };
    // SAFETY: the first of eight words of a map value, aligned.
    if unsafe { Word::at(set.cast()) }.load() == NEVER {
        return otherwise;
    }
    verdict
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
