#!/bin/sh
# Draws the passwords of compose.yaml into secrets/, unless they are there:
#
#   sh packaging/compose/secrets.sh [FOLDER]
#
# The folder can be entered by you alone. The files in it can be read by all,
# for compose hands them to the users of the containers as they are.
set -eu
dir=${1:-secrets}
mkdir -p "$dir"
chmod 0700 "$dir"
draw() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
keep() { # keep NAME TEXT
	[ -s "$dir/$1" ] || printf '%s\n' "$2" >"$dir/$1"
	chmod 0444 "$dir/$1"
}
keep postgres_password "$(draw)"
# As libpq has them: host, port, database, role, password.
keep pgpass_owner "*:*:*:tidemark_owner:$(draw)"
keep pgpass_server "*:*:*:tidemark_server:$(draw)"
