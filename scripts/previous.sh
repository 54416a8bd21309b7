#!/bin/sh
# previous.sh FILE: builds the program as it was before the newest version of the
# tables in PostgreSQL, or at the commit PREVIOUS, for trials in which an older program
# makes way for a newer one.
set -eu
file=$(realpath -m "${1:?previous.sh FILE}")
newest=$(ls backend/postgres/migrations/*.sql | tail -n 1)
added=$(git log --first-parent -m --diff-filter=A --format=%H -1 -- "$newest")
commit=${PREVIOUS:-${added:+$added^}}
if [ -z "$commit" ] || ! git rev-parse -q --verify "$commit^{commit}" > /dev/null; then
	echo "previous.sh: this copy of the repository does not know what was before $newest; PREVIOUS=COMMIT names it" >&2
	exit 1
fi
tree=$(mktemp -d)
trap 'git worktree remove --force "$tree/at" 2> /dev/null; rm -rf "$tree"' EXIT
git worktree add -q --detach "$tree/at" "$commit"
(cd "$tree/at" && CGO_ENABLED=0 go build -o "$file" ./cmd/tidemark)
