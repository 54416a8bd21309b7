#!/usr/bin/env bash
# Measures the store and the program beside the physical limit and beside what
# others do, and prints a table for each part. It takes some twenty minutes and
# 20 GB of disk; -quick takes four minutes.
#
#   scripts/bench.sh -quick
#   scripts/bench.sh -doc docs                  # also rewrite the tables there
#   scripts/bench.sh -only append,read          # see -help for the rest
#   scripts/bench.sh -only search,archive -entries 1000000
#   scripts/bench.sh -only import -foreign 1000 # megabytes of transcripts
#
# Ripgrep (rg), node, PostgreSQL and pgbench are measured beside the program
# where they are installed; where they are not, the tables say so.
#
# The data goes below TMPDIR, which has to lie on the disk that is meant.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go=${GO:-go}
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

# What is measured is what is there now, stripped as it is shipped.
"$go" build -trimpath -ldflags "-s -w" -o "$built/tidemark" ./cmd/tidemark
"$go" build -o "$built/bench" ./workshop/bench
"$built/bench" -program "$built/tidemark" "$@"
