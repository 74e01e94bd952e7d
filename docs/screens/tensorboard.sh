#!/bin/sh
# Makes docs/tensorboard.png: TensorBoard's histograms of the demo's run. Needs chromium, and a Python with
# TensorBoard, as ./dev interop makes one: docs/screens/tensorboard.sh PYTHON
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
python=$(realpath -s "${1:?a Python with TensorBoard: one of those that ./dev interop keeps in ~/.cache/tapedeck}")
scratch=$(mktemp -d)
server=
trap 'kill "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT
build/tapedeck train examples/demo/demo.yaml --out "$scratch/runs" --quiet
cd "$scratch"
"$python" -m tensorboard.main --logdir runs --host 127.0.0.1 --port 6123 --load_fast=false >log 2>&1 &
server=$!
until grep -q 'http://' log; do sleep 1; done
sleep 10 # it reads the events in the background
chromium --headless --no-sandbox --disable-gpu --disable-background-networking --hide-scrollbars \
    --user-data-dir="$scratch/browser" --window-size=1300,900 --virtual-time-budget=30000 \
    --screenshot="$root/docs/tensorboard.png" 'http://127.0.0.1:6123/#histograms&tagFilter=error' >/dev/null 2>&1
echo "docs/tensorboard.png"
