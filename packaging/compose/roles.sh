#!/bin/sh
# Run once by the image of PostgreSQL, when the database is made: the two roles
# of docs/guide/team.md, and a database that belongs to the first. Passwords are
# the last part of the files that the roles log in with.
set -eu
secrets=${SECRETS:-/run/secrets}
psql -v ON_ERROR_STOP=1 -q --username "${POSTGRES_USER:-postgres}" --dbname postgres \
	-v owner="$(sed 's/.*://' "$secrets/pgpass_owner")" -v server="$(sed 's/.*://' "$secrets/pgpass_server")" <<'SQL'
CREATE ROLE tidemark_owner LOGIN PASSWORD :'owner';
CREATE ROLE tidemark_server LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD :'server';
CREATE DATABASE tidemark OWNER tidemark_owner;
REVOKE ALL ON DATABASE tidemark FROM PUBLIC;
GRANT CONNECT ON DATABASE tidemark TO tidemark_server;
SQL
