#!/usr/bin/env bash
# Prints every package, those first whose tests take longest: go test starts
# them in this order, and a long one at the end would leave a core idle.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
longest='cmd/tidemark|server|backend/postgres|backend/sqlite|workshop/bench|examples|seal|backend/files|workshop/crash'

all=$("${GO:-go}" list ./...)
for room in ${longest//|/ }; do grep "/tidemark/$room\$" <<<"$all" || true; done
grep -vE "/tidemark/($longest)\$" <<<"$all"
