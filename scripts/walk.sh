#!/usr/bin/env bash
# A short walk through Tidemark on a throw-away store, offline: write a session,
# kill the writer with SIGKILL, read everything back, branch it, fork it, search
# it, and look for its words in the files, where they are not.
# usage: scripts/walk.sh PATH-TO-TIDEMARK
set -euo pipefail

bin=$(cd "$(dirname "${1:-bin/tidemark}")" && pwd)
PATH=$bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_DATA_HOME=$work/data XDG_CONFIG_HOME=$work/config
unset TIDEMARK_STORE TIDEMARK_KEY_FILE TIDEMARK_KEY_COMMAND TIDEMARK_PASSPHRASE_FILE

step() { printf '\n== %s\n' "$*"; }
show() {
	printf '$'
	for word; do
		case $word in *[!A-Za-z0-9_./:@=-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
	done
	printf '\n'
	"$@"
}

step "An agent writes a session. Each line of the answer is printed after the entry is on disk."
mkfifo agent
tidemark append new --session-meta '{"title":"garden plan","model":"demo"}' <agent >kept &
writer=$!
exec 3>agent
echo '{"role":"system","content":"You plan gardens."}' >&3
echo '{"role":"user","content":"What grows in the shade?"}' >&3
echo '{"role":"assistant","content":"Ferns, hostas, and ivy."}' >&3
echo '{"role":"user","content":"And what may I eat of it?"}' >&3
echo '{"role":"assistant","content":"Young hosta shoots, but no ivy."}' >&3
until [ "$(wc -l <kept)" -ge 5 ]; do sleep 0.05; done
cat kept

step "Another writer is refused, and told who holds the session."
echo '{"role":"user","content":"me too"}' | show tidemark append "garden plan" || true

step "The writer is killed with SIGKILL, in the middle of its work."
kill -KILL $writer
wait $writer 2>/dev/null || true
exec 3>&-
show tidemark lock "garden plan"

step "Everything that was acknowledged is there."
show tidemark show "garden plan"

step "Go on at once, then branch from the first node and go another way."
echo '{"role":"user","content":"Plan a bed of three by two metres."}' | tidemark append "garden plan"
show tidemark branch "garden plan@n0" --label "the question"
printf '%s\n' '{"role":"user","content":"And in full sun?"}' '{"role":"assistant","content":"Lavender, sage, tomatoes."}' | tidemark append "garden plan"
show tidemark tree "garden plan"

step "Fork it: the new session shares the past and copies nothing."
show tidemark fork "garden plan@n1" --name "kitchen garden"
show tidemark ls

step "Find what was said, by its words. The number behind @ is the entry."
show tidemark search 'hosta | lavender'

step "All of it is encrypted: no file has a word of it, and without the key nothing is told."
show grep -rlaiE 'hosta|lavender|garden' data || echo "(no file)"
mv config/tidemark/keys away
show tidemark ls || true
mv away config/tidemark/keys

step "Read it all and check every line."
show tidemark verify

printf '\nThat was all on a throw-away store. Next: tidemark --help, and docs/start.md.\n'
