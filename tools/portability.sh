# shellcheck shell=sh
# ./dev portability: other machines and compilers.

# foreign_libraries ARCHITECTURE FOLDER: the libraries of another architecture, as Debian packages them,
# unpacked into FOLDER; this machine's packages are left alone.
foreign_libraries() {
    [ ! -f "$2/complete" ] || return 0
    echo "fetching the libraries of $1 into $2"
    rm -rf "$2"
    mkdir -p "$2/state/lists/partial" "$2/cache/archives/partial" "$2/root/usr/lib"
    : >"$2/state/status"
    for step in update "install -y --download-only --no-install-recommends $foreign"; do
        # shellcheck disable=SC2086 # a command and its words
        quietly apt-get -q -o Dir::State="$2/state" -o Dir::State::status="$2/state/status" -o Dir::Cache="$2/cache" \
            -o APT::Architecture="$1" -o APT::Architectures="$1" -o APT::Sandbox::User=root $step ||
            fail "apt-get could not fetch the libraries of $1"
    done
    ln -s usr/lib "$2/root/lib"
    for package in "$2"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$2/root"
    done
    rm -rf "$2/cache" "$2/state"
    touch "$2/complete"
}

# cross CPU FOLDER: configures build-portability/CPU for it.
cross() {
    cmake -S . -B "build-portability/$1" -G Ninja --toolchain "$PWD/cmake/cross.cmake" -DTD_CROSS="$1" \
        -DTD_SYSROOT="$2/root" -DTAPEDECK_PYTHON=OFF
}

# A build for CPU, whose name for Debian is ARCHITECTURE: build_for CPU ARCHITECTURE.
build_for() {
    cross "$1" "$cache/$2" && cmake --build "build-portability/$1" -j "$jobs"
}

# test_on CPU ARCHITECTURE LEFT_OUT [ctest's options]: what was built for it, under qemu, but for what LEFT_OUT
# matches. Left out everywhere: scripts, which start programs without qemu, and what measures, fills or reserves the
# memory, of which qemu takes its own.
test_on() {
    cpu=$1
    architecture=$2
    left_out=$3
    shift 3
    run_ctest "build-portability/$cpu" -E "test_(h5py|written|train|model_hostile|infer)\$|$left_out" -LE valgrind "$@"
    on="qemu-$cpu-static -L $cache/$architecture/root build-portability/$cpu/tapedeck"
    place=$(mktemp -d)
    # shellcheck disable=SC2086 # a command and its words
    check "the demo on $architecture" $on train examples/demo/demo.yaml --set train.epochs=1 --out "$place" --quiet
    # Digits differ by the last ones: of the instructions, and of the order of sums.
    check "a run of $architecture is read here, and its losses are the same" build/tapedeck compare "$place"/* \
        build-portability/demo/* --what loss --tolerance 0.01
    # shellcheck disable=SC2086 # a command and its words
    check "files written on $architecture" sh tests/portability/write_files.sh "$place/files" $on
    check "files have the same bytes on $architecture" diff -r build-portability/files "$place/files"
    rm -rf "$place"
}

# What test_on compares with, made here.
write_here() {
    rm -rf build-portability/demo build-portability/files
    build/tapedeck train examples/demo/demo.yaml --set train.epochs=1 --out build-portability/demo --quiet &&
        sh tests/portability/write_files.sh build-portability/files build/tapedeck
}

# other NAME [OPTION…]: builds program and library another way into build-portability/NAME.
other() {
    name=$1
    shift
    cmake -S . -B "build-portability/$name" -G Ninja -DTAPEDECK_PYTHON=OFF -DTAPEDECK_TESTS=OFF "$@" &&
        cmake --build "build-portability/$name" -j "$jobs" --target tapedeck_program
}

# Compiled only: the message needs no libraries of 32 bits.
refuses_32_bits() {
    cmake -S . -B build-portability/32 -G Ninja -DCMAKE_C_FLAGS=-m32 -DCMAKE_CXX_FLAGS=-m32 \
        -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY 2>&1 | grep 'Tapedeck needs a 64-bit processor'
}

# make_packages FOLDER: the sources, copied to FOLDER, made into Debian packages in FOLDER/build. Seen from there the sources
# are where they are for every other build, so that a compiler cache knows them.
make_packages() {
    mkdir -p "$1" &&
        tar -c --exclude './build*' --exclude ./.git . | tar -x -C "$1" &&
        cmake -S "$1" -B "$1/build" -G Ninja -DTAPEDECK_PYTHON=OFF -DTAPEDECK_TESTS=OFF &&
        cmake --build "$1/build" -j "$jobs" &&
        (cd "$1/build" && SOURCE_DATE_EPOCH=1700000000 cpack -G 'DEB;TGZ')
}

# Program, libraries and packages do not say when or in which folder they were made.
reproduces() {
    place=$(mktemp -d)
    make_packages "$place/here" && make_packages "$place/another/folder" || return 1
    same=0
    for file in tapedeck libtapedeck.so libtapedeck.a libtapedeck-http.so libtapedeck-operators.so; do
        cmp "$place/here/build/$file" "$place/another/folder/build/$file" || same=1
    done
    for file in "$place"/here/build/*.deb "$place"/here/build/*.tar.gz; do
        cmp "$file" "$place/another/folder/build/$(basename "$file")" || same=1
    done
    rm -rf "$place"
    return $same
}

# The library's interface, written to build-portability/libtapedeck.abi, beside the last release's in
# packaging/: functions may come, none may go or change.
keeps_the_interface() {
    cmake -S . -B build-portability/abi -G Ninja -DCMAKE_BUILD_TYPE=Debug -DTAPEDECK_PYTHON=OFF -DTAPEDECK_TESTS=OFF &&
        cmake --build build-portability/abi -j "$jobs" --target tapedeck &&
        abidw --headers-dir include --drop-private-types --drop-undefined-syms --no-elf-needed \
            --exported-interfaces-only --no-parameter-names --no-corpus-path --no-comp-dir-path --no-show-locs \
            --out-file build-portability/libtapedeck.abi build-portability/abi/libtapedeck.so || return 1
    abidiff --no-added-syms --suppressions packaging/libtapedeck.abignore packaging/libtapedeck.abi \
        build-portability/libtapedeck.abi
}

command_portability() {
    need_for portability
    foreign_libraries arm64 "$cache/arm64"
    foreign_libraries s390x "$cache/s390x"
    build_preset release "$(release_target)" || exit 1
    mkdir -p build-portability
    check "files to compare with" write_here
    check "a build for arm64" build_for aarch64 arm64
    [ "$failed" != 0 ] || test_on aarch64 arm64 nothing -L 'unit|golden|gradient'
    before=$failed
    check "a build for s390x, which is big-endian" build_for s390x s390x
    # Files are what its byte order could spoil; what is left out takes minutes without vectors.
    [ "$failed" != "$before" ] ||
        test_on s390x s390x 'test_(sqlite|conv|kept_memory|keras_hostile|attention_blocks)\$|@' -L 'unit|golden'
    check "machines of 32 bits are refused in a sentence" refuses_32_bits
    check "a build by clang, without a warning" other clang -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
    check "a build with link-time optimization, without a warning" other lto -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON
    check "packages with the same bytes when built again elsewhere" reproduces
    check "the binary interface" keeps_the_interface
    finish
}
