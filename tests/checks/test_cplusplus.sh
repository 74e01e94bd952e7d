# The C++ examples, and every macro that takes options, compile as C++17 and C++20 without a warning,
# also where the headers are not a system's; what is written in strict C++17 does so pedantically.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

{
    echo '#include "tapedeck/tapedeck.h"'
    echo 'void use(td_model *model, td_deck *deck, td_error *error);'
    echo 'void use(td_model *model, td_deck *deck, td_error *error) {'
    sed -n 's/^#define \(td_add_[a-z0-9_]*\)(.*/    \1(model); \1(model, .name = "a", .from = {"b", "c"});/p' \
        "$TD_SOURCE/include/tapedeck/network.h"
    cat <<'TEXT'
    td_deck_track(deck, .what = "loss", .at = TD_AT(1, 10, 100), .to = "csv");
    td_metric_destroy(td_metric_create(TD_METRIC(.kind = TD_METRIC_MAE), error));
    td_optimizer_destroy(td_optimizer_create(TD_OPTIMIZER(.kind = TD_ADAM), 0, NULL, error));
    td_dataset_close(td_dataset_open(
        TD_DATA(.train = "points.csv", .label = TD_NAMES("class", "weight")), error));
    td_mse(NULL, NULL, NULL, TD_FROM_LOGITS);
}
TEXT
} >"$scratch/macros.cc"
cat >"$scratch/strict.cc" <<'TEXT'
#include "tapedeck/tapedeck.h"
td_status use(td_deck *deck, td_model *model);
td_status use(td_deck *deck, td_model *model) {
    auto layer = td_options<td_dense_layer>();
    layer.units = 10;
    td_model_add_layer(model, TD_LAYER_DENSE, &layer);
    auto track = td_options<td_track>();
    const int64_t steps[] = {1, 10, 100};
    track.at = {steps, 3};
    return td_deck_track_with(deck, &track, nullptr);
}
TEXT

grep -q 'td_add_conv2d(model)' "$scratch/macros.cc"
compiled=0
for compiler in g++ clang++; do
    if ! command -v "$compiler" >/dev/null; then
        echo "no $compiler here: not compiled with it"
        continue
    fi
    for standard in c++17 c++20; do
        for source in "$scratch/macros.cc" "$TD_SOURCE"/examples/*.cc; do
            "$compiler" -std=$standard -c -o "$scratch/object" -Wall -Wextra -Wshadow -Werror -I"$TD_SOURCE/include" "$source"
        done
        "$compiler" -std=$standard -c -o "$scratch/object" -Wall -Wextra -pedantic -Werror -I"$TD_SOURCE/include" \
            "$scratch/strict.cc"
    done
    compiled=$((compiled + 1))
done
[ $compiled -gt 0 ]
