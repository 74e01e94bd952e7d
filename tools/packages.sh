# shellcheck shell=sh
# Which Debian packages each command needs, and how they are installed.

fail() {
    echo "./dev: $*" >&2
    exit 1
}


for_build="cmake ninja-build pkg-config gcc g++ libsqlite3-dev libjansson-dev libyaml-dev
    libpng-dev libturbojpeg0-dev zlib1g-dev libmicrohttpd-dev"
for_format="clang-format"
for_lint="clang-tidy cppcheck shellcheck" # and npm: javascript in tools/lint.sh
for_test="chromium chromium-driver clang curl fuse3 hdf5-tools libcmocka-dev libfuse3-dev libonnx-testdata mkdocs-material mypy python3 python3-dev python3-h5py python3-numpy python3-pandas sqlite3 strace tmux
    iproute2 libmpich-dev libopenmpi-dev libpq-dev libtiff-dev libwebp-dev mpich munge openmpi-bin postgresql slurm-wlm binutils valgrind"
for_interop="binutils libpq-dev libtiff-dev libwebp-dev mkdocs-material postgresql python3 python3-dev python3-venv sqlite3 chromium chromium-driver"
for_docs="chromium chromium-driver mkdocs-material python3"
for_wheel="binutils dpkg-dev nasm python3 python3-venv tcl xz-utils"
for_release="$for_wheel libtiff-dev libwebp-dev debootstrap g++-aarch64-linux-gnu gcc-aarch64-linux-gnu qemu-user-static" # debootstrap: Ubuntu's address
for_fuzz="clang libclang-rt-dev"
for_bench="binutils python3 python3-dev python3-venv python3-numpy python3-pandas python3-torch libopenblas0-openmp libopenmpi-dev openmpi-bin libpq-dev postgresql"

for_portability="abigail-tools clang gcc-aarch64-linux-gnu g++-aarch64-linux-gnu gcc-s390x-linux-gnu g++-s390x-linux-gnu
    qemu-user-static"
# Of another architecture, for a build that is run under qemu.
foreign="libc6-dev libstdc++-12-dev libsqlite3-dev libjansson-dev libyaml-dev libpng-dev libturbojpeg0-dev zlib1g-dev
    libcmocka-dev"

# missing PACKAGE…: prints those that are not installed.
missing() {
    installed=" $(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null |
        sed -n 's/^ii *//p' | tr '\n' ' ')"
    for package in "$@"; do
        case $installed in
        *" $package "*) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

# need PACKAGE…: installs what is missing.
need() {
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        [ "${named-}" ] || echo "no apt-get here; needed, as Debian names them: $(printf '%s\n' "$@" | sort -u | tr '\n' ' ')"
        named=yes
        return
    fi
    wanted=$(missing "$@")
    [ "$wanted" ] || return 0
    echo "installing $wanted"
    as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "not root and no sudo; install by hand: $wanted"
        as_root=sudo
    fi
    $as_root apt-get update -q >/dev/null || echo "apt-get update failed; trying with the lists there are"
    # shellcheck disable=SC2086 # a list of words
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends $wanted </dev/null >/dev/null ||
        fail "could not install $wanted"
}

# npm as Debian packages it, unless the machine has one: packages of others (NodeSource) conflict with Debian's.
need_npm() {
    command -v npm >/dev/null || need nodejs npm
}

# need_for COMMAND: installs what it needs.
# shellcheck disable=SC2086 # $for_… are lists of words
need_for() {
    case $1 in
    build) need $for_build ;;
    test) need $for_build $for_test $for_format $for_lint ;;
    interop)
        need $for_build $for_interop
        need_npm
        ;;
    docs) need $for_build $for_docs ;;
    wheel) need $for_build $for_wheel ;;
    release) need $for_build $for_release ;;
    fuzz) need $for_build $for_fuzz ;;
    bench) need $for_build $for_bench ;;
    portability) need $for_build $for_portability ;;
    format) need $for_format ;;
    lint) need $for_build $for_test $for_lint ;;
    all)
        need $for_build $for_test $for_format $for_lint $for_interop $for_docs $for_release $for_fuzz $for_bench $for_portability
        need_npm
        ;;
    esac
}
