# shellcheck shell=sh
# Small systems of other releases, with the Python they have, to try a wheel in: unpacked packages, entered by chroot in
# a user namespace, so that nothing of the machine is changed and no root is needed. Those of another processor run
# under qemu. Everything is fetched by apt with the signatures of its release, once, and kept.

# mirror_of RELEASE PLACE: sets repository to the line of sources.list. Debian's mirror is the one that apt is
# configured with; Ubuntu's is debootstrap's default (for amd64), and its keys come from Debian.
mirror_of() {
    debian=$(mirrors | awk '$2 !~ /-/ { print $1; exit }')
    [ "$debian" ] || {
        echo "apt is configured with no Debian release, so there is no mirror to take $1 from"
        return 1
    }
    case $1 in
    jammy | noble)
        fetch_packages amd64 "$2/keys" "deb [signed-by=$keyring] $debian trixie main" ubuntu-keyring || return 1
        address=$(sed -n 's,.*default_mirror \(.*//archive\..*\),\1,p' /usr/share/debootstrap/scripts/jammy | head -n 1)
        repository="[signed-by=$2/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg] $address $1 main universe"
        ;;
    *) repository="[signed-by=$keyring] $debian $1 main" ;;
    esac
}

# fetch_userland CPU RELEASE FOLDER PACKAGE…: packages with all that they need, unpacked; no script of theirs is run.
fetch_userland() {
    cpu=$1
    release=$2
    into=$3
    shift 3
    architecture=$(debian_name "$cpu")
    scratch=$(mktemp -d)
    mirror_of "$release" "$scratch" || return 1
    echo "deb $repository" >"$scratch/sources.list"
    own_apt "$scratch" "$architecture" update &&
        own_apt "$scratch" "$architecture" install -y --download-only --no-install-recommends "$@" || return 1
    for name in bin sbin lib lib64; do
        mkdir -p "$into/usr/$name"
        [ -e "$into/$name" ] || ln -s "usr/$name" "$into/$name"
    done
    mkdir -p "$into/dev" "$into/proc" "$into/mnt" "$into/srv" "$into/tmp"
    for package in "$scratch"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$into" || return 1
    done
    if [ -d "$into/usr/share/ca-certificates" ]; then # what a script of that package would make; pip reads it as it starts
        mkdir -p "$into/etc/ssl/certs"
        cat "$into"/usr/share/ca-certificates/mozilla/*.crt >"$into/etc/ssl/certs/ca-certificates.crt"
    fi
    rm -rf "$scratch"
}

# in_userland CPU FOLDER SHARED COMMAND…: runs a command in it. It finds SHARED, which it cannot write to, at /srv, and
# may write to /mnt, which is gone afterwards.
in_userland() {
    # shellcheck disable=SC2016 # for the inner shell
    unshare --user --map-root-user --mount sh -euc '
        cpu=$1 folder=$2 shared=$3
        shift 3
        if [ "$cpu" != "$(uname -m)" ]; then
            mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
            cat "/usr/lib/binfmt.d/qemu-$cpu.conf" >/proc/sys/fs/binfmt_misc/register
        fi
        mount --rbind /dev "$folder/dev"
        mount --rbind /proc "$folder/proc"
        mount -t tmpfs tmpfs "$folder/mnt"
        mount --bind -o ro "$shared" "$folder/srv"
        cd "$folder/mnt"
        exec env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/mnt TMPDIR=/mnt LANG=C.UTF-8 "$(command -v chroot)" "$folder" "$@"' \
        sh "$@"
}

# The sources of CPython 3.10 are Ubuntu 22.04's: no release of Debian has that version.
fetch_python_3_10() {
    scratch=$(mktemp -d)
    mirror_of jammy "$scratch" || return 1
    echo "deb-src $repository" >"$scratch/sources.list"
    own_apt "$scratch" amd64 update && (cd "$scratch" && own_apt "$scratch" amd64 source --download-only python3.10) || return 1
    mkdir -p "$1"
    tar -xf "$scratch"/python3.10_*.orig.tar.* -C "$1" --strip-components=1 && rm -rf "$scratch"
}

# compile_python_3_10 FOLDER: the oldest CPython and the oldest glibc at once, which no release has together.
compile_python_3_10() {
    sources=$(mktemp -d)
    fetch_userland x86_64 bullseye "$1" gcc libc6-dev make zlib1g-dev libffi-dev dash coreutils sed grep mawk || return 1
    ln -sf dash "$1/usr/bin/sh"
    ln -sf mawk "$1/usr/bin/awk"
    fetch_python_3_10 "$sources" &&
        in_userland x86_64 "$1" "$sources" sh -c "cp -r /srv /mnt/build && cd /mnt/build && ./configure --prefix=/usr/local &&
            make -j $jobs && make altinstall" && rm -rf "$sources"
}

# make_userland CPU RELEASE: sets userland to its folder, which is made once.
make_userland() {
    userland=$cache/userland-$1-$2-$(cksum <tools/userland.sh | tr ' ' -)
    [ ! -f "$userland/complete" ] || return 0
    rm -rf "$userland"
    echo "making $userland"
    quietly fetch_userland "$1" "$2" "$userland" python3 python3-venv || fail "could not fetch $2 for $1"
    if [ "$1 $2" = "x86_64 bullseye" ]; then
        quietly compile_python_3_10 "$userland" || fail "could not compile CPython 3.10 in $2"
    fi
    touch "$userland/complete"
}

# make_postgresql RELEASE PATCHELF: sets postgresql to the folder of the programs of that release's PostgreSQL, which is made once. They
# are changed to load the libraries of their release, so that they run outside of it.
make_postgresql() {
    place=$cache
    [ "$(id -u)" != 0 ] || place=/var/cache/tapedeck # the server is another user, who cannot look into a root's home
    userland=$place/postgresql-$1-$(cksum <tools/userland.sh | tr ' ' -)
    if [ ! -f "$userland/complete" ]; then
        rm -rf "$userland"
        echo "making $userland"
        quietly fetch_userland "$(uname -m)" "$1" "$userland" postgresql || return 1
        for program in "$userland"/usr/lib/postgresql/*/bin/*; do
            quietly "$2" --set-interpreter "$userland$("$2" --print-interpreter "$program")" --force-rpath \
                --set-rpath "$userland/usr/lib/$(uname -m)-linux-gnu" "$program" || return 1
        done
        touch "$userland/complete"
    fi
    postgresql=$(echo "$userland"/usr/lib/postgresql/*/bin)
}

# pythons FOLDER: the Pythons of a userland, as paths within.
pythons() {
    for path in "$1"/usr/bin/python3.[0-9]* "$1"/usr/local/bin/python3.[0-9]*; do
        case $path in
        *\** | *-config) ;;
        *) echo "${path#"$1"}" ;;
        esac
    done
}
