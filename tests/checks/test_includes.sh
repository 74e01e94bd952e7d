# Includes name a module ("base/memory.h") or a public header ("tapedeck/base.h"): a path that climbs
# out of its folder would get round the rule of who may use whom, as would <tapedeck/…> found in an
# installed copy.
set -eu
cd "$TD_SOURCE"
if grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*("[^"]*\.\./|<tapedeck/)' --include='*.[ch]' --include='*.cc' \
    include src cli; then
    echo "the includes above leave their module"
    exit 1
fi
