# Copies programs ($3...) and all libraries of the unpacked packages in the current folder into a boot image ($2). $1: the
# processor's name in the folders of libraries.
set -e
libraries=$1
image=$2
shift 2
for folder in lib lib64; do
    mkdir -p "$image/usr/$folder/$libraries"
    ln -s "usr/$folder" "$image/$folder"
done
for program in "$@"; do
    found=$(find . -path "*bin/$program" -type f)
    cp "$found" "$image/bin/"
done
for folder in lib usr/lib; do
    [ ! -d "$folder/$libraries" ] ||
        find "$folder/$libraries" -maxdepth 1 -name '*.so*' -exec cp --archive {} "$image/usr/lib/$libraries/" ';'
done
# The objects that `xdp-loader` loads.
cp --archive "usr/lib/$libraries/bpf" "$image/usr/lib/$libraries/"
# The loader of shared libraries. It may be a link that is valid only in the image.
for loader in lib*/ld*.so* usr/lib*/ld*.so*; do
    [ -h "$loader" ] || [ -e "$loader" ] || continue
    cp --archive "$loader" "$image/usr/$(basename "$(dirname "$loader")")/"
done
