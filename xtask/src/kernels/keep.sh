# Copies the kernel of the unpacked packages in the current folder into the folder $1, with modules ($2...) after those that
# they need. A kernel may have a module built in, or not at all.
set -e
kept=$1
shift
mkdir -p "$kept/modules"
cp "$(find . -name 'vmlinuz*' -type f | head -n 1)" "$kept/vmlinuz"
number=100

# find_module NAME: its file, whose name may have the other sign between words.
find_module() {
    find . -name "$(echo "$1" | sed 's/[-_]/[-_]/g').ko*" -type f | head -n 1
}

add() {
    file=$(find_module "$1")
    [ -n "$file" ] || return 0
    [ -z "$(find "$kept/modules" -name "???-$1.ko")" ] || return 0
    for needed in $(/sbin/modinfo -F depends "$file" | tr , ' '); do add "$needed"; done
    file=$(find_module "$1")
    number=$((number + 1))
    case $file in
    *.xz) xz -dc "$file" ;;
    *.zst) zstd -dc "$file" ;;
    *) cat "$file" ;;
    esac >"$kept/modules/$number-$1.ko"
}

for module in "$@"; do add "$module"; done
