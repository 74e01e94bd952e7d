# Each public header compiles alone, as strict C17 and as C++17, without a warning; and the program in the
# comment of tapedeck.h does what it says.
set -eu
result=0
for header in "$TD_SOURCE"/include/tapedeck/*.h; do
    name=tapedeck/$(basename "$header")
    for language in c/c17 c++/c++17; do
        compiler=$CC
        [ "${language%%/*}" = c ] || compiler=$CXX
        # Twice: the include guard is checked too. A declaration: some headers have macros alone.
        printf '#include "%s"\n#include "%s"\nextern int declared;\n' "$name" "$name" |
            "$compiler" -x "${language%%/*}" -std="${language##*/}" -fsyntax-only -Wall -Wextra \
                -pedantic -Werror -I"$TD_SOURCE/include" - || {
            echo "$name does not compile alone as ${language##*/}"
            result=1
        }
    done
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sed -n '/^ \*     #include/,/^ \*     }$/s/^ \*     \{0,1\}//p' "$TD_SOURCE/include/tapedeck/tapedeck.h" >"$scratch/xor.c"
"$CC" -std=c17 -Wall -Wextra -Werror ${TD_SANITIZE:+-fsanitize=$TD_SANITIZE} -I"$TD_SOURCE/include" -o "$scratch/xor" "$scratch/xor.c" \
    -L"$TD_BUILD" -ltapedeck -Wl,-rpath,"$TD_BUILD"
printed=$(cd "$scratch" && ./xor)
case $printed in
"loss 0.00"*) test -s "$scratch/runs/xor/metrics.csv" ;;
*)
    echo "the program in tapedeck.h prints: $printed"
    result=1
    ;;
esac
exit $result
