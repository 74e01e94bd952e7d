# What is true of a kind of layer stands in src/engine/nn/layers, as members of the kind: other modules
# ask the kind and name none. Making a layer of a kind is not asking about it.
set -eu
cd "$TD_SOURCE"
members=$(sed -n '/define TD_LAYER_LIST(X)/,/^$/s/.*X(\([A-Z0-9_]*\), .*/\1/p' include/tapedeck/layers.h)
test "$(echo "$members" | wc -l)" -gt 50 || {
    echo "the list of kinds was not found in include/tapedeck"
    exit 1
}
names=$(echo "$members" | xargs | tr ' ' '|')
if grep -rnwE "TD_LAYER_($names)" --include='*.[ch]' src cli | grep -v '^src/engine/nn/' |
    grep -v 'td_model_add_layer('; then
    echo "the lines above know a kind of layer by name: make what they know a member of td__layer_kind"
    exit 1
fi

# Each kind of the list has its macro that adds it; the preprocessor cannot make macros.
missing=$(sed -n '/define TD_LAYER_LIST(X)/,/^$/s/.*X([A-Z0-9_]*, \([a-z0-9_]*\), .*/\1/p' include/tapedeck/layers.h |
    while read -r name; do
        grep -q "define td_add_$name(\.\.\.) TD_ADD_LAYER($name, __VA_ARGS__)" include/tapedeck/network.h ||
            echo "td_add_$name"
    done)
test -z "$missing" || {
    echo "network.h lacks: $missing"
    exit 1
}
