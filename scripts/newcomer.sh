#!/usr/bin/env bash
# What somebody does who has just cloned this repository: the two commands of
# the README, one after the other, with nobody at the keyboard. It prints how
# long each took, and fails when one of them does. make fresh runs it on a bare
# machine, CI on its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

took=()
try() { # try COMMAND…
	local began=$SECONDS
	echo "newcomer: $*"
	if ! "$@" </dev/null; then
		echo "newcomer: $* failed after $((SECONDS - began)) s" >&2
		exit 1
	fi
	took+=("$* $((SECONDS - began)) s")
}
try make run
try make test
printf 'newcomer: %s\n' "${took[@]}"
