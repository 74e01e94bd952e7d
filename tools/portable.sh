# shellcheck shell=sh
# What the wheel is built with, so that it runs on any Linux with glibc 2.31 or newer: the headers and libraries
# of an old glibc (Debian bullseye's), and the third-party libraries, compiled for it as static libraries from the
# newest source packages of Debian. The compiler is this machine's: bullseye's has no
# std::to_chars for doubles. Everything comes from the mirrors that apt is configured with; nothing is installed.

glibc_release=bullseye
glibc=2_31
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# mirrors: the Debian repositories that apt is configured with, as lines "ADDRESS RELEASE".
mirrors() {
    # shellcheck disable=SC2016 # these are apt's variables
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' 'Origin: Debian' |
        sort -u
}

# own_apt FOLDER ARCHITECTURE WORD…: apt-get, or apt-cache for showsrc, on FOLDER/sources.list alone, for a machine of
# ARCHITECTURE that has nothing installed; all that it writes is in FOLDER.
own_apt() {
    folder=$1
    architecture=$2
    shift 2
    program=apt-get
    [ "$1" != showsrc ] || program=apt-cache
    mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial"
    : >"$folder/state/status"
    $program -q -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State="$folder/state" -o Dir::State::status="$folder/state/status" -o Dir::Cache="$folder/cache" \
        -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User=root "$@"
}

# debian_name CPU: the name of its architecture in Debian.
debian_name() {
    case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) fail "wheels are built for x86_64 and aarch64, not for $1" ;;
    esac
}

# fetch_packages ARCHITECTURE FOLDER LINE PACKAGE…: downloads packages, without what they depend on, from the
# repositories of LINE (a line or more of sources.list) and unpacks them into FOLDER.
fetch_packages() {
    architecture=$1
    target=$2
    place=$(mktemp -d)
    echo "$3" >"$place/sources.list"
    shift 3
    own_apt "$place" "$architecture" update && (cd "$place" && own_apt "$place" "$architecture" download "$@") || return 1
    mkdir -p "$target/usr/lib"
    [ -e "$target/lib" ] || ln -s usr/lib "$target/lib"
    for package in "$place"/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$target" || return 1
    done
    rm -rf "$place"
}

# fetch_root CPU FOLDER: the old glibc and the headers of Python, which hold for every Python from 3.10 on.
fetch_root() {
    debian=$(mirrors | awk '$2 !~ /-/ { print $1; exit }')
    [ "$debian" ] || {
        echo "apt is configured with no Debian release, so there is no mirror to take $glibc_release from"
        return 1
    }
    fetch_packages "$(debian_name "$1")" "$2" "deb [signed-by=$keyring] $debian $glibc_release main" \
        libc6 libc6-dev linux-libc-dev libcrypt1 libcrypt-dev libgcc-10-dev || return 1
    # How exceptions are unwound: a newer compiler's own asks a newer glibc.
    cp "$2/usr/lib/gcc/$1-linux-gnu/10/libgcc_eh.a" "$2/usr/lib/$1-linux-gnu/"
    version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])') # Debian's own
    fetch_packages "$(debian_name "$1")" "$2" "$(mirrors | sed "s,^,deb [signed-by=$keyring] ,; s,\$, main,")" \
        "libpython$version-dev" || return 1
    find "$2" -type l -lname '/*' | while read -r link; do
        ln -sfn "$2$(readlink "$link")" "$link" # in this folder, not on the machine
    done
}

# fetch_sources FOLDER: the third-party libraries' source packages, with Debian's patches, each in the newest version of
# the release here, its updates and Debian's unstable; FOLDER/versions lists them. An index may be newer than the files of
# a mirror: then it is the next older version, which is reported.
fetch_sources() {
    rm -rf "$1"
    mkdir -p "$1"
    {
        mirrors
        mirrors | awk '$2 !~ /-/ { print $1, "sid"; exit }'
    } | sed "s,^,deb-src [signed-by=$keyring] ,; s,\$, main," >"$1/sources.list"
    own_apt "$1" amd64 update >"$1/log" 2>&1 || { cat "$1/log" && return 1; }
    for library in zlib libpng1.6 libyaml jansson libjpeg-turbo libmicrohttpd libwebp tiff sqlite3; do
        fetch_newest "$1" "$library" || { cat "$1/log" && return 1; }
    done
}

# fetch_newest FOLDER LIBRARY
fetch_newest() {
    for version in $(own_apt "$1" amd64 showsrc --only-source "$2" | sed -n 's/^Version: //p' | sort -rVu); do
        if (cd "$1" && own_apt "$1" amd64 source "$2=$version") >"$1/log" 2>&1; then
            echo "$2 $version" | tee -a "$1/versions"
            return 0
        fi
        echo "the mirror has no sources of $2 $version"
    done
    return 1
}

# compiler CPU ROOT: what cmake/cross.cmake calls, for what is not built by CMake.
compiler() {
    echo "$1-linux-gnu-gcc --sysroot=$2 -B$2/usr/lib/$1-linux-gnu"
}

# with_cmake CPU ROOT SOURCE [OPTION…]: one library, as a static one, into ROOT.
with_cmake() {
    cpu=$1
    root=$2
    source=$3
    shift 3
    folder=$source/build-$cpu
    cmake -S "$source" -B "$folder" -G Ninja --toolchain "$PWD/cmake/cross.cmake" -DTD_CROSS="$cpu" \
        -DTD_SYSROOT="$root" -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
        -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR:STRING="lib/$cpu-linux-gnu" "$@" &&
        cmake --build "$folder" -j "$jobs" && DESTDIR=$root cmake --install "$folder"
}

# with_configure CPU ROOT SOURCE TARGETS [OPTION…]: the same for a library that has a configure. What automake made stays
# as it is, also where a patch of Debian's (of tests) is newer.
with_configure() {
    cpu=$1
    root=$2
    source=$3
    targets=$4
    shift 4
    folder=$source/build-$cpu
    mkdir -p "$folder"
    find "$source" -name Makefile.in -exec touch {} +
    # shellcheck disable=SC2086 # a list of words
    (cd "$folder" && CC="$(compiler "$cpu" "$root")" CFLAGS="-O2 -fPIC" ../configure \
        --host="$cpu-linux-gnu" --prefix=/usr --libdir="/usr/lib/$cpu-linux-gnu" --disable-shared --enable-static "$@" &&
        make -j "$jobs" $targets DESTDIR="$root")
}

# zlib has a configure of its own, which builds in its folder alone; Debian's sources lack what its CMakeLists.txt
# needs.
build_zlib() {
    cp -r "$3" "$3/../build-zlib-$1" &&
        (cd "$3/../build-zlib-$1" && CC="$(compiler "$1" "$2")" CFLAGS="-O3 -fPIC" AR="$1-linux-gnu-ar" \
            ./configure --static --prefix=/usr --libdir="/usr/lib/$1-linux-gnu" && make -j "$jobs" libz.a &&
            make install DESTDIR="$2")
}

# describe CPU ROOT NAME LIBRARY VERSION: the file for pkg-config of a library that installs none, or elsewhere.
describe() {
    printf 'Name: %s\nDescription: %s\nVersion: %s\nCflags: -I/usr/include\nLibs: -L/usr/lib/%s -l%s\n' \
        "$3" "$3" "$5" "$1-linux-gnu" "$4" >"$2/usr/lib/$1-linux-gnu/pkgconfig/$3.pc"
}

# SQLite is one file, which its sources make, the same for every processor, by programs of this machine. Its options are
# those of Debian's that Tapedeck has a use for.
build_sqlite() {
    mkdir -p "$3/build-$1" && (cd "$3/build-$1" && ../configure --disable-tcl && make sqlite3.c) || return 1
    $(compiler "$1" "$2") -O2 -fPIC -DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_COLUMN_METADATA \
        -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_MAX_VARIABLE_NUMBER=250000 \
        -DSQLITE_OMIT_LOAD_EXTENSION -c "$3/build-$1/sqlite3.c" -o "$3/build-$1/sqlite3.o" &&
        "$1-linux-gnu-ar" rcs "$2/usr/lib/$1-linux-gnu/libsqlite3.a" "$3/build-$1/sqlite3.o" &&
        cp "$3/build-$1/sqlite3.h" "$2/usr/include/" &&
        describe "$1" "$2" sqlite3 sqlite3 "$(cat "$3/VERSION")"
}

# without_text FILE: options of libpng. Texts and colour profiles of a picture are of no use here, and unpacking them had
# memory errors (CVE-2026-46675 the last of them): the library skips them unread.
without_text() {
    printf 'option READ_%s off\n' tEXt zTXt iTXt iCCP >"$1"
}

# build_libraries CPU ROOT SOURCES
build_libraries() {
    build_zlib "$1" "$2" "$3"/zlib-* &&
        without_text "$3/png_options" &&
        with_cmake "$1" "$2" "$3"/libpng1.6-* -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_TOOLS=OFF -DDFA_XTRA="$3/png_options" &&
        with_cmake "$1" "$2" "$3"/libyaml-* -DBUILD_TESTING=OFF -DINSTALL_LIB_DIR="lib/$1-linux-gnu" &&
        describe "$1" "$2" yaml-0.1 yaml 0.2 &&
        with_cmake "$1" "$2" "$3"/jansson-* -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF -DJANSSON_WITHOUT_TESTS=ON \
            -DJANSSON_INSTALL_LIB_DIR:STRING="lib/$1-linux-gnu" &&
        describe "$1" "$2" jansson jansson 2 &&
        with_cmake "$1" "$2" "$3"/libjpeg-turbo-* -DENABLE_SHARED=OFF -DREQUIRE_SIMD=ON &&
        with_configure "$1" "$2" "$3"/libmicrohttpd-* install --disable-https --disable-doc --disable-examples \
            --disable-tools --disable-curl &&
        with_cmake "$1" "$2" "$3"/libwebp-* -DWEBP_BUILD_ANIM_UTILS=OFF -DWEBP_BUILD_CWEBP=OFF -DWEBP_BUILD_DWEBP=OFF \
            -DWEBP_BUILD_GIF2WEBP=OFF -DWEBP_BUILD_IMG2WEBP=OFF -DWEBP_BUILD_VWEBP=OFF -DWEBP_BUILD_WEBPINFO=OFF \
            -DWEBP_BUILD_WEBPMUX=OFF -DWEBP_BUILD_EXTRAS=OFF -DWEBP_BUILD_LIBWEBPMUX=OFF &&
        with_cmake "$1" "$2" "$3"/tiff-* -Dtiff-tools=OFF -Dtiff-tests=OFF -Dtiff-contrib=OFF -Dtiff-docs=OFF -Dcxx=OFF \
            -Djbig=OFF -Dlerc=OFF -Dlzma=OFF -Dzstd=OFF -Dwebp=OFF -Dlibdeflate=OFF &&
        build_sqlite "$1" "$2" "$3"/sqlite3-*
}

# portable_root CPU: sets root to the folder with everything, which is made once and kept.
portable_root() {
    root=$cache/portable-$1-$(cat tools/portable.sh cmake/cross.cmake | cksum | tr ' ' -)
    [ ! -f "$root/complete" ] || return 0
    rm -rf "$root"
    echo "making $root: glibc of $glibc_release and the libraries, for $1"
    sources=$(mktemp -d)
    quietly fetch_root "$1" "$root" || fail "could not fetch glibc of $glibc_release and Python's headers"
    fetch_sources "$sources" || fail "could not fetch the libraries' source packages"
    quietly build_libraries "$1" "$root" "$sources" || fail "could not build the libraries for $1"
    mv "$sources/versions" "$root/"
    rm -rf "$sources"
    touch "$root/complete"
}
