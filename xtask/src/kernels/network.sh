# Starts a machine (the arguments) with two network cards of each kind in $CARDS, which a bridge joins. Runs in a network
# namespace of its own. The fourth byte of a card's address is the line of its kind, the last one its side.
set -e
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
known=$("$1" -device help)
line=0
while IFS=';' read -r _ device queues; do
    line=$((line + 1))
    # An older emulator lacks some cards.
    case $known in *"name \"${device%%,*}\""*) ;; *) continue ;; esac
    ip link add "bridge$line" type bridge mcast_snooping 0
    ip link set "bridge$line" up
    for side in 1 2; do
        tap=tap$line.$side
        if [ "$queues" = 1 ]; then several=; else several=multi_queue; fi
        ip tuntap add "$tap" mode tap $several
        ip link set "$tap" mtu 9216 master "bridge$line" up
        bus=
        if [ "$device" = igb ]; then
            # Its virtual functions need the addresses of a bus of their own, which must be PCI Express.
            bus=,bus=port$tap
            set -- "$@" -machine q35 -device "pcie-root-port,id=port$tap,chassis=$line,slot=$side"
        fi
        set -- "$@" -netdev "tap,id=$tap,ifname=$tap,script=no,downscript=no,queues=$queues" \
            -device "$device,netdev=$tap,romfile=$bus,mac=$(printf '52:54:00:%02x:00:%02x' "$line" "$side")"
    done
done <<END
$CARDS
END
exec "$@"
