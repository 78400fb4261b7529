#!/bin/sh
# The first process in the virtual machine. It writes the results to the second serial line. The kernel writes its
# messages to the first one. `release` and `plan` come from the kernel's command line.
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
stty -F /dev/ttyS1 raw 2>/dev/null
exec >/dev/ttyS1 2>&1 </dev/null
echo "=== kernel $(uname -r)"
insmod "/modules/$release/veth.ko"
ip link set lo up
cd /tests
export LIMITER_STRICT=1 LIMITER_BINARY=/bin/limiter RUST_BACKTRACE=0

# target NAME ABOUT [TEST...]: runs a test file, or only these tests of it.
target() {
    name=$1
    echo "=== target $2 (\`$name\`)"
    shift 2
    timeout 240 "/targets/$name" --test-threads=1 --show-output --exact "$@"
    echo "=== exit $?"
}

# On a kernel that limiter does not support.
refusal() {
    echo '=== target `attach` refuses in one clear line'
    /bin/limiter attach lo --rate 5 --burst 10
    echo "=== exit $?"
}

# Under emulation, a program is loaded in seconds, not in milliseconds, and a CPU may stand still for as long. So only
# the tests that depend most on the kernel are run, and none that depends on wall-clock time.
tests() {
    target verifier "every entry is loaded"
    target object "libbpf loads the objects"
    target lifecycle "attach to veth, native and generic; detach" \
        modes_are_what_they_are_said_to_be \
        detach_leaves_no_program_map_link_or_pin
    target worked_examples "exactness" \
        example_2_burst_is_credit_not_a_hole \
        example_3_tokens_left_after_each_packet \
        example_7_the_clock_reads_earlier \
        example_8_cost_by_bytes \
        example_11_a_fixed_window \
        the_clock_may_wrap_in_the_middle
    target malformed "malformed packets"
    target several "several limits"
    target nested "nested limits" a_flood_from_two_cpus
    target lists "lists" \
        the_longest_prefix_decides_and_is_counted \
        tiers_decide_which_limit_holds_a_source
    target large "32 limits, 100,000 prefixes" \
        it_loads_far_below_what_the_verifier_takes_and_finds_the_right_list
    target keys "jumbo frames" jumbo_frames
    target store "the table" sources_of_one_set_have_buckets_of_their_own
    target two_cpus "two CPUs on one source" example_10_one_token_for_two_cpus
    target watch "events" what_one_limit_drops what_several_limits_and_lists_drop
    target replay "replay in the kernel" published_figures_come_out on_captures_of_others_both_say_the_same
}

$plan
echo "=== end"
poweroff -f
