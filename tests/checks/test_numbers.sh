# A plain number where a td_number belongs does not compile, in C and in C++: a computed zero cannot be
# taken for the default.
set -eu
compile() { # compiler, language, standard, initialiser of beta_1
    printf '#include "tapedeck/optimizers.h"
double computed(void);
void use(const td_optimizer_options *options);
void caller(void);
void caller(void) {
    td_optimizer_options options = {};
    double number = computed();
    options.beta_1 = %s;
    (void)number;
    use(&options);
}\n' "$4" | "$1" -x "$2" -std="$3" -fsyntax-only -I"$TD_SOURCE/include" - 2>/dev/null
}
result=0
for language in c/gnu17 c++/c++17; do
    compiler=$CC
    [ "${language%%/*}" = c ] || compiler=$CXX
    for good in 'TD_SET(number)' 'TD_SET(0)' TD_DEFAULT; do
        compile "$compiler" "${language%%/*}" "${language##*/}" "$good" || {
            echo "${language##*/}: beta_1 = $good does not compile"
            result=1
        }
    done
    for bad in number 0.9 0; do
        if compile "$compiler" "${language%%/*}" "${language##*/}" "$bad"; then
            echo "${language##*/}: beta_1 = $bad compiles"
            result=1
        fi
    done
done
exit $result
