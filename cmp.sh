export HOME=/tmp/micro/home XDG_CONFIG_HOME=/tmp/micro/home XDG_DATA_HOME=/tmp/micro/home
for s in jobs-sqlite jobs-files lines-sqlite; do d=/tmp/micro/fx/$s;  if [ -d $d/store ]; then export TIDEMARK_STORE=files:$d/store; else export TIDEMARK_STORE=sqlite:$d/tidemark.db; fi
for a in "jobs -n 0" "jobs" "jobs -n 0 --json" "jobs --agent agent-3"  "logs job-2026-01-01-000001"; do cmp <(/tmp/micro/tm-base $a 2>&1) <(/tmp/micro/tm-new $a 2>&1) && echo same; done; done
