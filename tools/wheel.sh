# shellcheck shell=sh
# ./dev wheel: a wheel that runs on every Linux with glibc 2.31 and CPython 3.10 or newer. It holds the extension, and
# the program and its plugins, each with all libraries but glibc within.

# build_wheel CPU: sets wheel to build/wheel/tapedeck-…-manylinux_2_31_CPU.whl. The objects are kept, for the next time.
build_wheel() {
    portable_root "$1"
    environment wheel
    folder=$PWD/build-wheel/$1
    rm -rf "$folder/made"
    echo "building the wheel for $1"
    headers=$(echo "$root"/usr/include/python3.*)
    # _PYTHON_HOST_PLATFORM is what CPython's own cross-builds name their machine with.
    quietly env _PYTHON_HOST_PLATFORM="linux-$1" SOURCE_DATE_EPOCH="$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)" \
        CMAKE_ARGS="--toolchain $PWD/cmake/cross.cmake -DTD_CROSS=$1 -DTD_SYSROOT=$root -DPython3_INCLUDE_DIR=$headers" \
        "$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
        --config-settings=build-dir="$folder/objects" --wheel-dir "$folder/made" . || fail "pip could not build the wheel"
    mkdir -p build/wheel
    rm -f build/wheel/tapedeck-*"_$1.whl"
    # By name it would only know the platforms of this machine's processor.
    quietly env PATH="$(dirname "$python"):$PATH" "$python" -m auditwheel repair --plat auto \
        --wheel-dir build/wheel "$folder/made"/tapedeck-*.whl || fail "auditwheel could not repair the wheel"
    wheel=$(echo build/wheel/tapedeck-*"_$1.whl")
    case $wheel in
    *"-manylinux_${glibc}_$1.whl") ;;
    *) fail "$wheel is not for glibc $glibc" ;;
    esac
}

# only_glibc FOLDER: every file of an unpacked wheel needs libraries of glibc alone.
only_glibc() {
    for file in "$1"/tapedeck/_native.abi3.so "$1"/tapedeck-*.data/scripts/tapedeck \
        "$1"/tapedeck-*.data/data/lib/tapedeck/*.so; do
        readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
            grep -v -x -e 'lib\(c\|m\|dl\|pthread\|rt\)\.so\.[0-9]*' -e 'ld-linux-.*' && {
            echo "are needed by $file"
            return 1
        }
    done
    return 0
}

# on_old_glibc COMMAND…: a program of this processor with the old glibc instead of the machine's.
on_old_glibc() {
    libraries=$(echo "$root"/lib/*-linux-gnu)
    "$libraries/ld-2.31.so" --library-path "$libraries" "$@"
}

# imports_within MILLISECONDS PYTHON: importing the package takes no longer; in processor time, as the machine may be busy: the best of five.
imports_within() {
    "$2" - "$1" <<'CODE'
import subprocess, sys
code = "import time; t = time.process_time(); import tapedeck; print(1000 * (time.process_time() - t))"
best = min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(5))
print(f"{best:.0f} ms")
sys.exit(best > float(sys.argv[1]))
CODE
}

# demo_within SECONDS: from the wheel alone to what the demo shows, as `pipx run` does it: an environment, the wheel, the
# program. In processor time, as the machine may be busy.
demo_within() {
    "$python" - "$1" "$wheel" "$place" <<'CODE'
import os, resource, subprocess, sys, time
limit, wheel, place = sys.argv[1:]
began = time.monotonic()
environment = os.path.join(place, "demo")
subprocess.run([sys.executable, "-m", "venv", environment], check=True)
subprocess.run([os.path.join(environment, "bin", "pip"), "install", "--quiet", "--no-index", os.path.abspath(wheel)], check=True)
done = subprocess.run([os.path.join(environment, "bin", "tapedeck"), "demo"], cwd=place, check=True, capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.stdout, f"{used.ru_utime + used.ru_stime:.1f} s of processor time, {time.monotonic() - began:.1f} s")
sys.exit("Layer errors" not in done.stdout or used.ru_utime + used.ru_stime > float(limit))
CODE
}

# make_sdist FOLDER
make_sdist() {
    "$python" -c 'import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])' "$1"
}

# sdist_is_whole: a source distribution has every file of the folders that it is built from.
sdist_is_whole() {
    make_sdist "$place/sdist" || return 1
    find cli cmake include packaging python src tools web -type f ! -path '*/__pycache__/*' | LC_ALL=C sort >"$place/sources"
    tar -tzf "$place"/sdist/tapedeck-*.tar.gz | sed 's,^[^/]*/,,' | LC_ALL=C sort >"$place/held"
    missing=$(LC_ALL=C comm -23 "$place/sources" "$place/held")
    [ -z "$missing" ] || {
        echo "the source distribution lacks $missing"
        return 1
    }
}

# test_wheel: $wheel, of this processor, installed where nothing else is.
test_wheel() {
    place=$(mktemp -d)
    quietly python3 -m venv "$place/venv" || fail "no python3 here can make a virtual environment"
    quietly "$place/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel" numpy pandas ||
        fail "pip could not install the wheel"
    quietly "$python" -m zipfile -e "$wheel" "$place/unpacked"
    chmod +x "$place/unpacked"/tapedeck-*.data/scripts/tapedeck
    check "the source distribution has every source" sdist_is_whole
    check "the wheel's metadata" "$python" -m twine check --strict "$wheel"
    check "the wheel needs glibc alone" only_glibc "$place/unpacked"
    check "the wheel's program trains the demo on glibc 2.31" on_old_glibc \
        "$place/unpacked"/tapedeck-*.data/scripts/tapedeck train examples/demo/demo.yaml --set train.epochs=1 --out "$place/runs"
    check "the program in the wheel" "$place/venv/bin/tapedeck" --version
    check "the operators in the wheel" "$place/venv/bin/tapedeck" predict tests/fixtures/models/sklearn/forest_names.onnx \
        tests/fixtures/models/sklearn/forest_names.input.npy --to "$place/predicted.csv" --quiet
    check "the demo is shown within 10 seconds from the wheel alone" demo_within 10
    check "the package is imported within 50 ms" imports_within 50 "$place/venv/bin/python"
    check "the package in the wheel" env -u PYTHONPATH "$place/venv/bin/python" tests/python/test_deck.py
    check "the wheel's program, used by the package" env -u PYTHONPATH TAPEDECK="$place/venv/bin/tapedeck" \
        "$place/venv/bin/python" tests/python/test_api.py
    check "the wheel, with nothing but Python" env -u PYTHONPATH "$place/venv/bin/python" tests/install/try_wheel.py -v
    rm -rf "$place"
}

command_wheel() {
    need_for wheel
    build_wheel "$(uname -m)"
    test_wheel
    echo "$wheel: $(du -k "$wheel" | cut -f 1) KiB, with"
    cat "$root/versions"
    finish
}
