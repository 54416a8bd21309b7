#!/usr/bin/env bash
# Runs the adversarial suite alone: the tests that docs/threat-model.md and
# SECURITY.md name, in the rooms that have them, with every case of which make
# test tries some. Where the number of SQL statements is set, every single
# protection of the database is taken away, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names=$(grep -ohE '`Test[A-Za-z0-9_]+`' docs/threat-model.md SECURITY.md | tr -d '`' | sort -u | paste -sd'|')
mapfile -t rooms < <(grep -rlE --include='*_test.go' "^func ($names)\(" . | xargs -n1 dirname | sort -u)
export TIDEMARK_EVERY_CASE=1 TIDEMARK_SQL_STATEMENTS=${TIDEMARK_SQL_STATEMENTS:-10000}
go test -vet=off -ldflags=-w -count=1 -timeout=30m -json -run "^($names)\$" "${rooms[@]}" | bin/tally
