#!/usr/bin/env bash
# What make quick runs: every test that needs neither PostgreSQL nor a browser
# nor another program, but those that quick.txt names because they take long,
# with few random trials. make test runs them all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${GO:=go}"

list() { awk -F' +[|] ' -v kind="$1" 'sub("^" kind " +", "", $1) { print $1 }' scripts/quick.txt; }
rooms=$("$GO" list ./... | grep -vE "/($(list room | paste -sd'|' -))\$")
skip="^($(list test | paste -sd'|' -))\$"

# Only rooms that use rapid know how many trials are meant.
random=$(for d in $(grep -rlE --include='*_test.go' '^\s+"(pgregory.net/rapid|.*/(backend/backendtest|convert/converttest))"$' . | xargs -n1 dirname | sort -u); do
	echo "$("$GO" list -m)${d#.}"
done)
few=$(comm -12 <(sort <<<"$rooms") <(sort <<<"$random"))
rest=$(comm -23 <(sort <<<"$rooms") <(sort <<<"$random"))
{
	"$GO" test -short -vet=off -json -skip "$skip" $rest || true
	"$GO" test -short -vet=off -json -skip "$skip" $few -args -rapid.checks=10 || true
} | bin/tally -quick
