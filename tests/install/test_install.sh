# What cmake --install puts into a folder is enough to build against and to run: a small program and
# every example compile with what pkg-config says, the small one statically, too, and with CMake's
# find_package; the installed program starts.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

cmake --install "$TD_BUILD" --prefix "$prefix" >/dev/null
# Moved after installing: nothing may remember where it was put.
mv "$prefix" "$scratch/moved"
prefix=$scratch/moved

for file in docs/experiment.md docs/screens/layer-light.webp examples/demo/demo.yaml examples/data/digits.csv.gz README.md; do
    [ -f "$prefix/share/doc/tapedeck/$file" ] || {
        echo "not installed: share/doc/tapedeck/$file"
        exit 1
    }
done

libraries=$(dirname "$(find "$prefix" -name libtapedeck.so)")
export PKG_CONFIG_PATH="$libraries/pkgconfig"
flags="-Wall -Wextra -Werror ${TD_SANITIZE:+-fsanitize=$TD_SANITIZE}"
for source in "$TD_SOURCE/tests/install/consumer.c" "$TD_SOURCE"/examples/*.c "$TD_SOURCE"/examples/*.cc; do
    case $source in
    *.cc) compile="$CXX -std=c++17" ;;
    *) compile="$CC -std=c17" ;;
    esac
    name=$(basename "$source")
    # shellcheck disable=SC2046,SC2086 # lists of words
    $compile $flags "$source" -o "$scratch/${name%.*}" $(pkg-config --cflags --libs tapedeck) -lm
done

# shellcheck disable=SC2046,SC2086 # lists of words
$CC -std=c17 $flags "$TD_SOURCE/tests/install/consumer.c" -o "$scratch/static" \
    $(pkg-config --cflags --libs tapedeck-static)
"$scratch/static" >/dev/null # no LD_LIBRARY_PATH: it has all it needs
cmake -S "$TD_SOURCE/tests/install" -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_C_FLAGS="$flags" >/dev/null
cmake --build "$scratch/cmake" >/dev/null
"$scratch/cmake/shared" >/dev/null
"$scratch/cmake/static" >/dev/null

version=$(pkg-config --modversion tapedeck)
LD_LIBRARY_PATH=$libraries "$scratch/consumer" >"$scratch/output"
head -n 1 "$scratch/output" | grep -qxF "$version" || {
    echo "pkg-config says $version, the library says:"
    cat "$scratch/output"
    exit 1
}
if [ -x "$TAPEDECK" ]; then
    "$prefix/bin/tapedeck" --version | grep -F "$version"
    for page in man/man1/tapedeck.1 bash-completion/completions/tapedeck zsh/site-functions/_tapedeck \
        fish/vendor_completions.d/tapedeck.fish; do
        grep -q gradients "$prefix/share/$page" || {
            echo "$page is missing, or does not know all commands"
            exit 1
        }
    done
fi
# The viewer finds its plugin beside the moved library.
if [ -x "$TAPEDECK" ] && [ -f "$TD_BUILD/libtapedeck-http.so" ]; then
    mkdir "$scratch/runs"
    "$prefix/bin/tapedeck" view "$scratch/runs" --no-open >"$scratch/address" &
    viewer=$!
    until [ -s "$scratch/address" ] || ! kill -0 "$viewer" 2>/dev/null; do sleep 0.1; done
    kill "$viewer"
    wait "$viewer"
    grep -q '^http://127.0.0.1:' "$scratch/address"
fi
# So do the operators of scikit-learn's models.
if [ -x "$TAPEDECK" ]; then
    forest=$TD_SOURCE/tests/fixtures/models/sklearn/forest_names
    "$prefix/bin/tapedeck" predict "$forest.onnx" "$forest.input.npy" --to "$scratch/predicted.csv" --quiet
    grep -q predicted "$scratch/predicted.csv"
fi

# A configuration without tests after one that had them.
for tests in AUTO OFF; do
    cmake -S "$TD_SOURCE" -B "$scratch/configured" -DTAPEDECK_TESTS=$tests -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_CXX_COMPILER="$CXX" >/dev/null
done
