//! The configuration with as many limits as there can be, and with everything that a limit can match.

use limiter_common::abi::rules::LIMITS_MAX;

/// Number of limits: three slots are for the limits on control traffic.
pub const LIMITS: u32 = LIMITS_MAX - 3;

/// The file with these lines for its lists, which include the tiers `gold` and `silver`.
pub fn file(lists: &str) -> String {
    let matches = [
        "{ protocol = \"tcp\", destination_port = [1, 2, \"3-4\"], tcp_flags = \"syn\", length = \"60-\", ttl = \"0-64\", dscp = \"ef\", payload_length = \"0-1400\", established = false, vlan = \"1-20\" }",
        "{ source = \"gold\", ip_version = 6, fragments = false, length = \"0-1500\", destination = \"2001:db8::/32\", not = { icmp_type = \"echo-request\" } }",
        "{ unless = [\"gold\", \"silver\"] }",
        "{ protocol = \"udp\", payload = { offset = 2, bytes = \"01 02\" } }",
    ];
    let keys = [
        "/32,/128,destination_port",
        "source/24,/48 + destination + destination_port",
        "flow",
        "destination",
    ];
    let algorithms = ["token-bucket", "fixed-window"];
    let limit = |i: usize| {
        let (matching, key) = (matches[i % 4], keys[i / 4 % 4]);
        let algorithm = algorithms[i % 2];
        let hold = match i {
            0 => "hold = \"10m\"\nproof = \"syn-cookie\"\n",
            3 => "proof = [\"dns-tc\", \"a2s\"]\nslip = 2\n",
            2 => "adaptive = { floor = \"50%\", when = { cpu_pressure = \"20%\" } }\n",
            _ => "",
        };
        format!(
            "[[limit]]\nname = \"l{i}\"\nmatch = {matching}\nkey = \"{key}\"\n\
             rate = \"10mbit\"\nburst = \"1mb\"\nalgorithm = \"{algorithm}\"\n{hold}"
        )
    };
    let limits: String = (0..LIMITS as usize).map(limit).collect();
    format!(
        "exempt = [\"established\", \"control\", \"vrrp\", \"ospf\", \"bfd\"]\n[lists]\n{lists}\n{limits}"
    )
}
