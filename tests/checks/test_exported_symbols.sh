# libtapedeck.so exports exactly the functions that the public headers declare with TD_API.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for header in "$TD_SOURCE"/include/tapedeck/*.h; do
    echo "#include \"tapedeck/$(basename "$header")\""
done >"$scratch/all.c"
# One declaration a line; the name is the last word before the first parenthesis that follows TD_API.
"$CC" -std=c17 -E -P -I"$TD_SOURCE/include" "$scratch/all.c" | tr '\n' ' ' | tr ';' '\n' |
    sed -n 's/.*__attribute__((visibility("default")))//p' |
    sed 's/__attribute__((warn_unused_result))//' |
    sed -n 's/^[^(]*[ *]\(td_[a-z0-9_]*\) *(.*/\1/p' | sort -u >"$scratch/declared"
nm -D --defined-only "$TD_BUILD/libtapedeck.so" | awk '$2 != "A" {print $3}' |
    grep -v -E '^__(asan|odr_asan|ubsan|tsan|sanitizer|lsan)' | sort -u >"$scratch/exported"

if ! cmp -s "$scratch/declared" "$scratch/exported"; then
    echo "exported, but in no public header:"
    comm -13 "$scratch/declared" "$scratch/exported"
    echo "in a public header, but not exported:"
    comm -23 "$scratch/declared" "$scratch/exported"
    exit 1
fi
