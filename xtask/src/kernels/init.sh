#!/bin/sh
# The first process in the virtual machine. It writes to the serial line `results`. The kernel writes its messages to
# another one. `release` and `results` come from the kernel's command line.
/bin/busybox mkdir -p /bb /proc /sys /dev /run /tmp
/bin/busybox --install -s /bb
export PATH=/bin:/bb HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmp /dev/shm
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
stty -F /dev/"$results" raw 2>/dev/null
exec >/dev/"$results" 2>&1 </dev/null
echo "=== kernel $(uname -r)"
# A module of tunnels makes an interface in each network namespace, unless this is 2.
echo 2 >/proc/sys/net/core/fb_tunnels_only_for_init_net
for module in "/modules/$release"/*; do insmod "$module"; done
ip link set lo up
cd /tests
export LIMITER_STRICT=1 LIMITER_MACHINE=1 LIMITER_BINARY=/bin/limiter RUST_BACKTRACE=0

longest=240
usual=$longest
all=/tmp/all
/tests-of-the-kernel --list --format terse >$all

# target NAME TITLE [TEST...]: runs a test file, or only these of its tests.
target() {
    name=$1
    echo "=== target $2 (\`$name\`)"
    shift 2
    [ $# != 0 ] || set -- $(sed -n "s/^$name::\(.*\): test$/\1/p" $all)
    tests=
    for test in "$@"; do tests="$tests $name::$test"; done
    # Without names, the program would run all tests.
    tests=${tests:-$name}
    began=$(date +%s)
    # A file instead of a pipe: a leftover process of a test would hold a pipe open.
    timeout "$longest" /tests-of-the-kernel --test-threads=1 --show-output --exact $tests >/tmp/printed 2>&1
    code=$?
    cat /tmp/printed
    # The status of `timeout`.
    [ "$code" != 124 ] || echo "not within $longest s"
    # A test that was renamed or removed does not run.
    for test in $tests; do
        grep -qx "$test: test" $all && continue
        echo "there is no test $test: correct xtask/src/kernels/init.sh"
        code=97
    done
    echo "took $(($(date +%s) - began)) s"
    echo "=== exit $code"
}

# On the newest kernel, these run in the machine with the virtio card, so that two machines share its tests.
last_targets() {
    target pacing "delays by fq"
    target coexistence "libxdp and its dispatcher"
    target proof "answers by SYN cookies" \
        answer_has_the_size_of_its_syn_and_right_checksums_and_only_its_cookie_proves
    target answers "answers only for the host, as its stack would" \
        program_answers_what_the_kernel_answers_and_no_more_without_forwarding \
        program_answers_what_the_kernel_answers_and_no_more_with_forwarding
    longest=1400
    target merged "merged packets of any form" \
        wire::outgoing_packets_of_any_form_count_as_on_the_wire \
        wire::incoming_packets_that_the_interface_merges_count_as_on_the_wire \
        wire::packets_that_a_virtual_machine_leaves_to_the_host_to_cut_count_as_on_the_wire
    longest=$usual
}

if [ "$release" = counted ]; then
    export LIMITER_COUNTS=1
    target instructions "instructions per packet" program_takes_the_recorded_instructions
    echo "=== end"
    poweroff -f
fi

case $release in
drivers-*)
    longest=2000
    target drivers "network cards" virtio_net other_cards
    target drivers "interfaces of software" \
        devices::bond_and_its_port_have_one_native_program devices::bonds devices::bridges \
        devices::macvlans devices::macvtaps devices::taps \
        devices::merged_packets_of_a_guest_count_as_the_packets_they_were_only_in_mode_tc devices::teams devices::vlans
    target drivers "interfaces above others" \
        layers::interfaces_whose_incoming_packets_no_program_sees_are_refused \
        above::tunnels_with_ethernet_headers above::macsec_hsr_ipvlan_and_netkit above::bonds_of_all_ports_at_once \
        layers::program_beside_the_interface_is_not_in_the_way layers::program_on_any_kind_of_interface_above_is_named
    echo "=== end"
    poweroff -f
    ;;
rt-*)
    longest=600
    target lifecycle "attach to veth, native and generic; detach" reported_mode_is_the_mode_in_use \
        detach_leaves_no_program_map_link_or_pin
    target worked_examples "exactness" example_3_tokens_left_match_after_each_packet clock_wrap_does_not_change_decisions
    target several "several limits" example_9_packet_is_charged_to_all_limits_or_none
    target two_cpus "two CPUs" \
        example_10_two_cpus_admit_one_packet_for_one_token two_cpus_admit_no_more_new_sources_than_tokens \
        two_cpus_flooding_one_source_never_exceed_a_slow_rate
    target disturbed "a sender interrupts another one" \
        counts_are_exact_when_a_sender_interrupts_another_one_on_its_processor
    target watch "events" watch_reports_drops_of_several_limits_and_lists
    target tc "network stack" outgoing_packets_are_limited_by_destination merged::merged_packets_count_as_the_packets_they_were
    echo "=== end"
    poweroff -f
    ;;
lockdown-*)
    longest=900
    mount -t securityfs securityfs /sys/kernel/security
    target lockdown "uses of limiter" uses_of_limiter_work_in_lockdown
    echo "=== end"
    poweroff -f
    ;;
disturbed)
    longest=900
    target disturbed "processors, sleep, clock"
    echo "=== end"
    poweroff -f
    ;;
virtio)
    # The rows of this kernel on the page.
    release=newest
    target drivers "virtio-net" virtio_net
    last_targets
    echo "=== end"
    poweroff -f
    ;;
*-*) longest=600 usual=600 ;;
esac

# Under emulation, loading a program takes seconds instead of milliseconds, and a CPU may stop for seconds. This plan
# runs only the tests that depend most on the kernel, and no tests that depend on wall-clock time. The verdicts of one
# program are the same on every kernel, so few tests of verdicts run here.
target verifier "every entry is loaded"
target object "libbpf loads the objects" bpftool_loads_every_object
target lifecycle "attach to veth, native and generic; detach" \
    reported_mode_is_the_mode_in_use \
    detach_leaves_no_program_map_link_or_pin
target worked_examples "exactness" \
    example_3_tokens_left_match_after_each_packet \
    example_8_packet_costs_its_bytes \
    clock_wrap_does_not_change_decisions
target several "several limits" \
    example_9_packet_is_charged_to_all_limits_or_none \
    lists_come_before_limits_and_the_longest_prefix_decides
case $release in
# Its packets must come faster than the limit's 20,000/s, also while the host has other work.
*-*) ;;
*)
    target nested "nested limits" flood_from_two_cpus_stays_within_nested_limits
    ;;
esac
target large "32 limits, 100,000 prefixes" \
    largest_configuration_loads_and_finds_the_right_list
target keys "jumbo frames" jumbo_frames_count_with_their_whole_length
target store "the table" sources_of_one_set_have_separate_buckets
case $release in
# Another processor orders memory in another way.
*-*)
    target two_cpus "two CPUs" \
        example_10_two_cpus_admit_one_packet_for_one_token \
        two_cpus_admit_no_more_new_sources_than_tokens \
        two_cpus_flooding_one_source_never_exceed_a_slow_rate
    ;;
*)
    target two_cpus "two CPUs with new sources" two_cpus_admit_no_more_new_sources_than_tokens
    ;;
esac
target log "messages" largest_program_is_verified_with_messages log_reports_decisions_of_several_limits_and_lists
target watch "events" watch_reports_drops_of_several_limits_and_lists
target senders "packets that pass" passed_packets_are_shown_with_their_reasons
target watch_write "bytes of packets" drops_are_written_with_their_first_bytes_reason_and_limit
target tc "network stack: outgoing packets, merged packets, tun, WireGuard" \
    outgoing_packets_are_limited_by_destination \
    merged::merged_packets_count_as_the_packets_they_were \
    packets_without_ethernet_headers_are_limited_in_both_directions \
    wireguard::wireguard_is_limited_in_both_directions
longest=1400
target tunnels "tunnels: IPsec, WireGuard, ipip, sit, ip6tnl, GRE, fou, tun"
target merged "merged packets: options, extension headers, tunnels, SCTP" \
    computed::program_in_the_kernel_charges_the_same \
    wire::udp_packets_of_a_local_user_count_as_on_the_wire \
    tunnels::packets_in_tunnels_count_as_on_the_wire \
    tunnels::sctp_packets_count_as_on_the_wire
longest=$usual
[ "$release" = newest ] || last_targets
target replay "the policy in user space agrees" replay_reproduces_the_documented_examples
case $release in
*-*)
    # Another processor orders memory, or the bytes of a word, in another way.
    longest=1400
    target malformed "truncated and inconsistent frames"
    target table "memory of the table" table_memory_is_fixed_and_shown
    target store_races "two CPUs, entries that change hands"
    ;;
esac
echo "=== end"
poweroff -f
