# cpack's Debian packages: the three install into an empty system, the program runs there, and removing
# them leaves nothing behind; the tarball holds the same.
set -eu
if ! command -v dpkg >/dev/null; then
    echo "no dpkg here: Debian packages are not tested"
    exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/packages"
(cd "$scratch/packages" && cpack -G 'DEB;TGZ' --config "$TD_BUILD/CPackConfig.cmake" -B "$scratch/packages" >/dev/null)

root=$scratch/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/log"
touch "$root/var/lib/dpkg/status"
as_root=
if [ "$(id -u)" != 0 ]; then
    as_root=fakeroot
    command -v fakeroot >/dev/null || {
        echo "neither root nor fakeroot: Debian packages are not installed"
        exit 1
    }
fi
in_root() { # what the packages need is not there: it is the machine's
    $as_root dpkg --root="$root" --force-depends --force-script-chrootless --log=/dev/null "$@" >/dev/null 2>&1
}
files() { find "$root" -path "$root/var" -prune -o -type f -print -o -type l -print; }

in_root --install "$scratch"/packages/*.deb
for file in bin/tapedeck include/tapedeck/deck.h share/man/man1/tapedeck.1 share/doc/libtapedeck0/copyright; do
    [ -f "$root/usr/$file" ] || {
        echo "the packages do not have usr/$file"
        files
        exit 1
    }
done
files | grep -q '/libtapedeck\.so\.[0-9.]*$'
files | grep -q '/libtapedeck-operators\.so$'
"$root/usr/bin/tapedeck" --version
forest=$TD_SOURCE/tests/fixtures/models/sklearn/forest_names
"$root/usr/bin/tapedeck" predict "$forest.onnx" "$forest.input.npy" --to "$scratch/predicted.csv" --quiet
dpkg --root="$root" --list tapedeck libtapedeck0 libtapedeck-dev | grep -c '^ii' | grep -qx 3
dpkg-deb --field "$scratch"/packages/libtapedeck0_*.deb Depends | grep -q libsqlite3
# Who does not train on several machines needs no MPI.
if dpkg-deb --field "$scratch"/packages/libtapedeck0_*.deb Depends | grep -E 'mpi|mpich'; then
    exit 1
fi
mpis=$(find "$TD_BUILD" -maxdepth 1 -name 'libtapedeck-mpi-*.so' -exec basename {} .so ';')
for mpi in $mpis; do
    dpkg-deb --field "$scratch/packages/$mpi"_*.deb Depends | grep -q "lib${mpi#libtapedeck-mpi-}"
done
tar -tzf "$scratch"/packages/tapedeck-*.tar.gz | grep -q 'bin/tapedeck$'

# shellcheck disable=SC2086 # a list of words
in_root --purge tapedeck libtapedeck-dev $mpis libtapedeck0
[ -z "$(files)" ] || {
    echo "left behind:"
    files
    exit 1
}
