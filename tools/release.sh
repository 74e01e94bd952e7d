# shellcheck shell=sh
# ./dev release: what a release has, in build/release: wheels for both processors, the source distribution, Debian
# packages of this machine's processor and release, and the checksums of all. Each is tried where it is to run.

# What a wheel is tried in: Debian's, and for x86-64 Ubuntu's. Of CPython they have 3.9 (which must refuse the wheel),
# 3.11, 3.13, 3.10 and 3.12; the x86-64 bullseye gets a 3.10 that is compiled there.
releases_of() {
    echo bullseye bookworm trixie
    [ "$1" != x86_64 ] || echo jammy noble
}

# try_everywhere CPU: $wheel in each release with each Python it has, and its program, without Python, on glibc 2.31.
try_everywhere() {
    shared=$(mktemp -d)
    chmod 755 "$shared"
    cp "$wheel" tests/install/try_install.py tests/install/try_wheel.py "$shared"
    sed 's,\.\./data/,,' examples/demo/demo.yaml >"$shared/demo.yaml"
    cp examples/data/digits.csv.gz "$shared"
    sed 's/epochs: 12$/epochs: 1/' "$shared/demo.yaml" >"$shared/short.yaml"
    short=
    [ "$1" = "$(uname -m)" ] || short=/srv/short.yaml # emulated, the demo takes minutes
    quietly "$python" -m zipfile -e "$wheel" "$shared/unpacked"
    cp "$shared"/unpacked/tapedeck-*.data/scripts/tapedeck "$shared/"
    chmod 755 "$shared/tapedeck"
    check "the wheel for $1 needs glibc alone" only_glibc "$shared/unpacked"
    check "the wheel for $1, as auditwheel sees it" says "manylinux_$glibc" "$python" -m auditwheel show "$wheel"
    for release in $(releases_of "$1"); do
        make_userland "$1" "$release"
        [ "$release" != bullseye ] ||
            check "the program of the wheel in $release, $1" in_userland "$1" "$userland" "$shared" \
                /srv/tapedeck train /srv/demo.yaml --set train.epochs=1 --out /mnt/runs
        for its_python in $(pythons "$userland"); do
            check "the wheel in $release, $1, $(basename "$its_python")" in_userland "$1" "$userland" "$shared" \
                "$its_python" /srv/try_install.py "/srv/$(basename "$wheel")" /mnt ${short:+"$short"}
        done
    done
    rm -rf "$shared"
}

# says TEXT COMMAND…
says() {
    text=$1
    shift
    "$@" | tee /dev/stderr | grep -q "$text"
}

# try_sdist SDIST: a wheel from it, with this machine's libraries.
try_sdist() {
    place=$(mktemp -d)
    mkdir "$place/sources" && tar -xf "$1" -C "$place/sources" --strip-components=1 &&
        PATH="$(dirname "$python"):$PATH" "$python" -m pip wheel --quiet --no-build-isolation --no-deps \
            --config-settings=build-dir="$place/sources/build" --wheel-dir "$place" "$place/sources" &&
        "$python" tests/install/try_install.py "$place"/tapedeck-*.whl "$place" && rm -rf "$place"
}

# try_packages FOLDER: the Debian packages of a folder in a system that has what they depend on and nothing more.
try_packages() {
    place=$(mktemp -d)
    chmod 755 "$place"
    wanted=$(for package in "$1"/*.deb; do dpkg-deb --field "$package" Depends | tr ',' '\n'; done |
        sed 's/^ *//; s/ .*//' | grep -v tapedeck | sort -u)
    # shellcheck disable=SC2086 # a list of words
    fetch_userland "$(uname -m)" "$(mirrors | awk '$2 !~ /-/ { print $2; exit }')" "$place/system" $wanted || return 1
    for package in "$1"/*.deb; do
        dpkg-deb --extract "$package" "$place/system" || return 1
    done
    in_userland "$(uname -m)" "$place/system" "$1" /usr/bin/tapedeck demo && rm -rf "$place"
}

command_release() {
    need_for release
    environment wheel
    out=$PWD/build/release
    rm -rf "$out"
    mkdir -p "$out"
    for cpu in x86_64 aarch64; do
        build_wheel "$cpu"
        cp "$wheel" "$out"
        try_everywhere "$cpu"
    done
    check "a source distribution" make_sdist "$out"
    check "the version in packaging/conda" grep -q "version = \"$(basename "$out"/*.tar.gz .tar.gz | cut -d - -f 2)\"" packaging/conda/meta.yaml
    check "a wheel that is built from it" try_sdist "$(echo "$out"/tapedeck-*.tar.gz)"
    place=$(mktemp -d)
    check "Debian packages" make_packages "$place"
    cp "$place"/build/*.deb "$out"
    rm -rf "$place"
    check "the Debian packages where nothing else is" try_packages "$out"
    (cd "$out" && sha256sum -- * >SHA256SUMS)
    (cd "$out" && du -k -- *)
    finish
}
