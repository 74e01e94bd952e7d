# Each public header compiles alone, as strict C17 and as C++17, without a warning.
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
exit $result
