# Writes files of every format from the fixtures: write_files.sh FOLDER PROGRAM…, where the program may
# run under an emulator. The bytes do not depend on the machine; ./dev portability compares them.
set -eu
out=$1
shift
fixtures=tests/fixtures
models=$fixtures/models
mkdir -p "$out"
for ending in csv npz safetensors keras h5 onnx; do
    "$@" weights $models/keras/images.keras --to "$out/images.$ending" >/dev/null
done
"$@" weights $models/keras/images.keras --to "$out/images/" >/dev/null
# What was written is read again, and files of others are.
for file in "$out"/images.[!c]* $models/keras/halves.h5 $models/onnx/lstm_13.onnx $models/weights/checkpoint.index \
    $models/weights/checkpoint.pt $models/weights/state_old.pt $models/saved_model/graph; do
    "$@" weights "$file" --tensors --to "$out/again-$(basename "$file").safetensors" >/dev/null 2>&1
done
for format in csv npy npz png; do
    "$@" export $fixtures/runs/version-1 --to $format --out "$out/run-$format" >/dev/null
done
for format in csv npy npz; do
    "$@" export $fixtures/events/tf2 --to $format --out "$out/events-$format" >/dev/null
done
