//! Programs for the benchmark on a wire, attached to nothing else: a sender that gives every packet
//! the next source, and two to compare with: the simplest limiter, and a program that only
//! reads one cache line of the packet's source.
//!
//! The sender is run by the kernel's test-run with live frames, which transmits what it redirects.

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
use limiter_common::policy::{Limit as _, Parsed, parse};
use limiter_ebpf::{atomic, config, maps::SETS, packet::Cursor};
use network_types::{
    eth::{EthHdr, EtherType},
    ip::{Ipv4Hdr, Ipv6Hdr},
};

/// The packets to send, and their destination.
#[repr(C)]
pub struct Flow {
    /// Number of the next packet.
    next: u64,
    /// Number of sources, a power of two, less one.
    mask: u64,
    /// Added to a source's number to make 32 bits of its address.
    first: u64,
    /// Index of the interface that packets leave by.
    interface: u64,
    /// Sum of the IPv4 header's 16-bit words without its source and its checksum.
    header_sum: u64,
}

#[btf_map]
static FLOW: Array<Flow, 1> = Array::new();

/// Odd, so that multiplying is a bijection of the numbers below any power of two: every source once,
/// in an order in which neighbours are far apart. 2^32 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b1;

impl Flow {
    /// The part of the next packet's source address that makes it another one.
    #[inline(always)]
    fn draw(&mut self) -> u32 {
        let number = self.next.wrapping_mul(SPREAD) & self.mask;
        self.next += 1;
        (self.first + number) as u32
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
    // SAFETY: a map value that only one CPU uses, and fields of a header that `take` has found to lie
    // within the packet. The helper takes numbers.
    unsafe {
        let source = (*flow).draw();
        write(&raw const (*header).src_addr, source.to_be());
        let sum = (*flow).header_sum as u32 + (source >> 16) + (source & 0xffff);
        // Twice: adding the carry may carry once more.
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        write(&raw const (*header).check, (!sum as u16).to_be());
        bpf_redirect((*flow).interface as u32, 0) as u32
    }
}

/// The second word of the address makes the /64, and its complement stands in the last word, so that
/// the sum of both, and with it the packet's checksum, is always the same.
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
    // SAFETY: as above.
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

/// Filled in by the loader.
#[unsafe(no_mangle)]
static QUOTA: Quota = Quota { cost: 1, tau: 1 };

/// The moment at which each source's bucket is full again.
#[btf_map]
static LRU_IPV4: LruHashMap<u32, u64, 1024> = LruHashMap::new();

/// The moment at which the bucket of each /64 of IPv6 is full again.
#[btf_map]
static LRU_IPV6: LruHashMap<[u32; 2], u64, 1024> = LruHashMap::new();

/// A limiter by the book: LRU hash, clock, compare-and-swap. It counts nothing, and has no option.
#[xdp]
pub fn reference(context: XdpContext) -> u32 {
    const IPV4: u16 = EtherType::Ipv4 as u16;
    const IPV6: u16 = EtherType::Ipv6 as u16;
    let mut packet = Cursor::new(&context);
    let Some(ethernet) = packet.take::<EthHdr>() else {
        return XDP_PASS;
    };
    // SAFETY: `take` and `peek` have checked that the headers lie within the packet.
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
    for _ in 0..TRIES {
        // SAFETY: a map value of eight bytes, aligned.
        let seen = unsafe { atomic::load(bucket) };
        let full_at = seen.max(now) + cost;
        if full_at - now > tau {
            return XDP_DROP;
        }
        // SAFETY: as above.
        if unsafe { atomic::compare_and_swap(bucket, seen, full_at) } == seen {
            return XDP_PASS;
        }
    }
    XDP_DROP
}

/// Drops IP packets, after a look at the line of its source.
#[xdp]
pub fn one_line_drop(context: XdpContext) -> u32 {
    one_line(&context, XDP_DROP, XDP_PASS)
}

/// Passes it, after the same look.
#[xdp]
pub fn one_line_pass(context: XdpContext) -> u32 {
    one_line(&context, XDP_PASS, XDP_DROP)
}

/// The least work of any limiter by source, with limiter's own parser, key, hash and map: reads one word of the
/// source's set. The verdict depends on the word, so that the read is not optimized away. Nothing is ever written
/// there, so that the word is always the same.
#[inline(always)]
fn one_line(context: &XdpContext, verdict: u32, otherwise: u32) -> u32 {
    const NEVER_THERE: u64 = u64::MAX;
    let source = match parse(&mut Cursor::new(context)) {
        Parsed::Ipv4(source) | Parsed::Ipv6(source) => source,
        Parsed::Arp(_) | Parsed::NotIp | Parsed::Malformed | Parsed::TooManyTags => {
            return XDP_PASS;
        }
    };
    let Some(limit) = config::limit(0) else {
        return XDP_ABORTED;
    };
    let tag = limit.mask().key(0, &source, 0).tag();
    let home = config::seed().home(&tag, config::sets());
    let Some(set) = SETS.get_ptr_mut(home.set) else {
        return XDP_ABORTED;
    };
    // SAFETY: the first of eight words of a map value, aligned.
    if unsafe { atomic::load(set.cast()) } == NEVER_THERE {
        return otherwise;
    }
    verdict
}
