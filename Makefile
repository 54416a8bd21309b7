# `make` alone lists the targets. Everything a person or a machine does with
# this project goes through here, so that both do the same.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
# The program is pure Go and static. The race detector alone needs cgo.
export CGO_ENABLED ?= 0
# The version comes from git describe below; Go's own stamp would make builds
# fail in copies that git does not trust. The program is built without the paths
# of this machine; tests are built so, too, or all would be compiled twice.
export GOFLAGS := $(filter-out -trimpath -buildvcs=%,$(GOFLAGS)) -trimpath -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
COMMIT_DATE ?= $(shell TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
BUILD := $(GO) build -ldflags "-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(COMMIT_DATE)"
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
# What lint looks at is what one system compiles; the processor makes no odds. Vet
# compiles everything, so only the program itself is linked.
# make cross builds all six.
CHECKED := linux/amd64 darwin/arm64 windows/amd64
# What staticcheck looks at; before a release also what only other systems
# compile: make lint SYSTEMS='linux darwin windows'.
SYSTEMS ?= linux

FUZZTIME ?= 20s
SOAKCHECKS ?= 10000
CRASHSTATES ?= 1000000

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the static program into bin/tidemark
	$(BUILD) -o bin/tidemark$$($(GO) env GOEXE) ./cmd/tidemark

.PHONY: run
run: build ## build, and take the tour: two minutes, offline, on a throw-away store
	@bin/tidemark$$($(GO) env GOEXE) tour

.PHONY: deps
deps: ## install the programs that tests use, where they are missing
	@bash scripts/deps.sh

.PHONY: quick
quick: bin/tally ## what needs no PostgreSQL, no browser and no other programs, with few random trials
	bash scripts/quick.sh

# One room may take more than Go's ten minutes on a small machine that is busy.
# The other flags are those of scripts/quick.sh, for the same reasons.
.PHONY: test
test: deps bin/tally ## install what is missing, run all tests, and every input that fuzzing starts from or once found
	$(GO) test -C tools ./...
	. scripts/memory.sh 4000000; rooms=$$(bash scripts/rooms.sh); \
	$(GO) test -vet=off -ldflags=-w -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -parallel 8 -timeout=30m -json $$rooms | bin/tally

.PHONY: fresh
fresh: ## both commands of the README on a bare Debian, as a newcomer would run them (half an hour; root, or a container engine)
	bash scripts/fresh.sh

.PHONY: adapters
adapters: deps ## the examples beside the frameworks themselves, which are large: ADK, LangGraph, OpenAI Agents
	$(GO) vet -C examples/adk ./...
	$(GO) test -C examples/adk ./...
	TIDEMARK_TEST_NPM=1 $(GO) test -count=1 -timeout=30m ./examples

.PHONY: mcp
mcp: deps ## the official client and the example servers of MCP from npm, beside the program
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	npm install --silent --no-audit --no-fund --prefix "$$folder" @modelcontextprotocol/sdk@1 @modelcontextprotocol/server-{everything,filesystem,memory}@2026.8.31 && \
	MCP_NODE_MODULES="$$folder" $(GO) test -count=1 -timeout=15m -v -run 'TypeScriptClient|ExampleServers' ./cmd/tidemark

.PHONY: race
race: deps ## run all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race ./...

.PHONY: lint
lint: bin/staticcheck ## check format, build and vet for three systems, staticcheck, modules
	@echo "gofmt -l ."
	@wrong=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); if [ -n "$$wrong" ]; then echo "not formatted:"; echo "$$wrong"; exit 1; fi
	@for p in $(CHECKED); do \
		echo "build and vet $$p"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./cmd/tidemark; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./...; \
	done
	@for s in $(SYSTEMS); do echo "staticcheck $$s"; GOOS=$$s bin/staticcheck ./...; done
	cd tools && $(GO) vet ./... && ../bin/staticcheck ./...
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) mod verify -C tools
	$(GO) mod tidy -C tools -diff

.PHONY: cross
cross: ## build the program for six platforms into bin/
	@for p in $(PLATFORMS); do \
		out=bin/tidemark-$${p%/*}-$${p#*/}; \
		case $$p in windows/*) out=$$out.exe;; esac; \
		echo "$$out"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(BUILD) -o $$out ./cmd/tidemark; \
	done

.PHONY: release
release: ## build what people install for six platforms, into bin/release, with SBOMs and checksums
	bash scripts/release.sh

.PHONY: releasecheck
releasecheck: deps bin/tally ## build a release for this machine twice, compare, look into it, install and remove it
	TIDEMARK_TEST_RELEASE=1 $(GO) test -count=1 -timeout=30m -json ./scripts | bin/tally

.PHONY: packages
packages: ## the same for Linux alone: archives, deb (dpkg-deb) and rpm (rpmbuild)
	bash scripts/release.sh linux/amd64 linux/arm64

# Not a part of make test: what chance finds says nothing about the change that
# is tried, and another run does not find it again.
.PHONY: fuzz
fuzz: ## fuzz each target for FUZZTIME (20s), one after the other
	bash scripts/fuzz.sh $(FUZZTIME)

.PHONY: crash
crash: build deps ## SIGKILL, power cuts, a crash at every file-system call (minutes; root for power cuts)
	TIDEMARK_CRASH_STATES=$(CRASHSTATES) bash scripts/crash.sh

.PHONY: attacks
attacks: deps bin/tally ## the adversarial suite alone: what the threat model names
	bash scripts/attacks.sh

.PHONY: soak
soak: deps ## random histories against the model, SOAKCHECKS (10000) each, what make test tries some cases of, long fuzzing
	@grep -rlE --include='*_test.go' '^\s+"(pgregory.net/rapid|.*/backend/backendtest)"$$' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		$(GO) test -count=1 -timeout=0 ./$$dir -args -rapid.checks=$(SOAKCHECKS) </dev/null; \
	done
	TIDEMARK_EVERY_CASE=1 $(GO) test -count=1 -timeout=0 -run '^(TestScripts|TestEveryPageFitsAndIsAccessible|TestBackendWhoseLinesArriveFirst)$$' ./cmd/tidemark ./server ./backend/sqlite
	TIDEMARK_PLACE_TRIALS=300 $(GO) test -count=1 -timeout=0 -v -run '^TestHistoriesConvergeByEveryKindOfPlace$$' ./transfer/sync
	TIDEMARK_DAY_FILES=50000 TIDEMARK_WATCH_KILLS=300 $(GO) test -count=1 -timeout=0 -run 'ADayOfTenTools|AKilledWatcher' ./transfer/watch
	@$(MAKE) failover
	@$(MAKE) fuzz FUZZTIME=10m

.PHONY: audit-trial
audit-trial: build deps ## every acknowledged write has its audit line after 100 kills and more, in both kinds of store (minutes)
	$(GO) run ./workshop/load -bin bin/tidemark -sqlite -followers 10 -writers 60 -entries 200 -drains 5 -kills 110
	$(GO) run ./workshop/load -bin bin/tidemark -followers 10 -writers 60 -entries 200 -drains 5 -kills 110 -cuts 10 -crashes 10

.PHONY: load
load: build deps ## followers and writers over HTTP while servers and connections die (minutes)
	$(GO) run ./workshop/load -bin bin/tidemark -followers 1000 -writers 200 -entries 40 -drains 3 -kills 3 -cuts 6

.PHONY: failover
failover: build deps ## the database fails over, and an older program makes way for this one, under load: nothing is lost; a tenant moves between databases, older lines to storage that is killed; of an asynchronous standby what is lost is told
	$(GO) run ./workshop/load -bin bin/tidemark -followers 200 -writers 60 -entries 60 -drains 2 -kills 2 -cuts 2 -failover
	$(GO) run ./workshop/load -bin bin/tidemark -followers 200 -writers 60 -entries 60 -drains 2 -kills 2 -cuts 2 -moves 6
	$(GO) run ./workshop/load -bin bin/tidemark -followers 200 -writers 60 -entries 60 -drains 2 -kills 2 -cuts 2 -chills 6
	sh scripts/previous.sh bin/previous
	$(GO) run ./workshop/load -bin bin/tidemark -from bin/previous -nodes 3 -followers 200 -writers 60 -entries 60 -drains 2 -kills 2 -cuts 2
	$(GO) test -count=5 -run FollowersAreTold -v ./workshop/load

.PHONY: bench
bench: build ## measure beside the physical limit and beside peers, as ratios
	bash scripts/bench.sh

# Who answers, such as '-provider anthropic -model NAME', and '-json' or '-only go'.
TASKS ?=

.PHONY: tasks
tasks: build ## have the agent solve thirty small tasks: by a script, or by a real model (TASKS='-provider …', with its key in the environment)
	$(GO) run ./workshop/tasks -bin bin/tidemark$$($(GO) env GOEXE) $(TASKS)

# What make clients is told besides, such as "-tool 'pi|codex'" or '-dir FOLDER'.
CLIENTS ?=

.PHONY: clients
clients: build ## go on with sessions in the agents of others, from npm, against a scripted model; writes docs/agents.md; runs add up in workshop/clients/found.json; two hours, npm, tmux
	$(GO) run ./workshop/clients -bin bin/tidemark$$($(GO) env GOEXE) -write docs/agents.md $(CLIENTS)

# What make evidence is told besides, such as -short, '-share 0.1' or '-only crash'.
EVIDENCE ?=

.PHONY: evidence
evidence: deps ## try every promise, hours, and write docs/evidence.md; goes on where it was (EVIDENCE=-short: minutes)
	$(GO) run ./workshop/evidence -doc docs/evidence.md $(EVIDENCE)

.PHONY: pictures
pictures: deps ## take the pictures of the README and the guide in a browser, light and dark, of the samples of other tools
	$(GO) test -count=1 -run TestSessionsOfEveryClientAreShown ./server -args -pictures $(CURDIR)/docs/images

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

# The tools' versions are pinned in their own module, so that go.mod names what
# the program needs and nothing else.
bin/staticcheck: tools/go.mod tools/go.sum
	GOOS= GOARCH= $(GO) build -C tools -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck

bin/tally: $(wildcard tools/tally/*.go) tools/tally/skips.txt
	GOOS= GOARCH= $(GO) build -C tools -o ../bin/tally ./tally
