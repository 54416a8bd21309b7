#!/usr/bin/env bash
# Measures the store and the program beside the physical limit and beside what
# others do, and prints one table. It takes some fifteen minutes and 20 GB of
# disk; -quick takes two minutes.
#
#   scripts/bench.sh -quick
#   scripts/bench.sh -doc docs/benchmarks.md    # also rewrite the table there
#   scripts/bench.sh -only append,read          # see -help for the rest
#
# The data goes below TMPDIR, which has to lie on the disk that is meant.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go=${GO:-go}
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

# What is measured is what is there now, stripped as it is shipped.
"$go" build -trimpath -ldflags "-s -w" -o "$built/tidemark" ./cmd/tidemark
"$go" build -o "$built/bench" ./internal/bench
"$built/bench" -program "$built/tidemark" "$@"
