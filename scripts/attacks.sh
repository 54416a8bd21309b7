#!/usr/bin/env bash
# Runs the adversarial suite alone: the tests that docs/threat-model.md and
# SECURITY.md name, in the rooms that have them, with every case of which make
# test tries some.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names=$(grep -ohE '`Test[A-Za-z0-9_]+`' docs/threat-model.md SECURITY.md | tr -d '`' | sort -u | paste -sd'|')
mapfile -t rooms < <(grep -rlE --include='*_test.go' "^func ($names)\(" . | xargs -n1 dirname | sort -u)
TIDEMARK_EVERY_CASE=1 go test -vet=off -ldflags=-w -count=1 -timeout=30m -json -run "^($names)\$" "${rooms[@]}" | bin/tally
