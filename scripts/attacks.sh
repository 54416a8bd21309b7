#!/usr/bin/env bash
# Runs the adversarial suite alone: the tests that docs/threat-model.md and
# SECURITY.md name, in the rooms that have them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names=$(grep -ohE '`Test[A-Za-z0-9_]+`' docs/threat-model.md SECURITY.md | tr -d '`' | sort -u | paste -sd'|')
mapfile -t rooms < <(grep -rlE --include='*_test.go' "^func ($names)\(" . | xargs -n1 dirname | sort -u)
go test -vet=off -count=1 -timeout=30m -json -run "^($names)\$" "${rooms[@]}" | bin/tally
