# shellcheck shell=sh
# ./dev bench.

command_bench() {
    need_for bench
    build_preset release || exit 1
    if [ $# = 0 ]; then
        for name in bench/*.py; do
            [ -f "$name" ] && run_bench "$(basename "$name" .py)"
        done
    else
        run_bench "$@"
    fi
}

# run_bench NAME [OPTION…]: Debian's Python, which has PyTorch; for the Python package and beside onnxruntime
# the registry's, and for layers, engine and predict the registry's peers, unless --debian is the first option of the
# last two.
run_bench() {
    name=$1
    shift
    case $name,${1-} in
    engine,--debian | predict,--debian) shift ;;
    engine,* | predict,* | layers,* | cluster,*)
        environment requirements
        export TD_PEERS="$python"
        ;;
    esac
    if [ "$name" = python ]; then
        environment requirements
        PYTHONPATH="$PWD/build/python" "$python" -W ignore bench/python.py "$@"
    elif [ "$name" = models ]; then
        environment requirements
        "$python" -W ignore bench/models.py "$@"
    elif [ -f "bench/$name.py" ]; then
        /usr/bin/python3 "bench/$name.py" "$@"
    elif [ -x "build/bench/$name" ]; then
        "build/bench/$name" "$@"
    else
        fail "no benchmark $name"
    fi
}
