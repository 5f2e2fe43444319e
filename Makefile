.DEFAULT_GOAL := help

.PHONY: help demo test soak sim security museum reliability lint cover bench load conformance contact ui ui-test generate release-snapshot temporal temporal-workflows

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' Makefile

demo: ## shows a crash and the recovery from it: scripted model, no key, no network
	CGO_ENABLED=0 go run ./cmd/perdure demo crash

test: ## brings what the tests need, then vets and tests every package, with the race detector where goroutines share memory
	@bash scripts/test.sh

soak: ## the second tier: kill loops, power cuts, storms; SCALE=ci takes minutes, SCALE=full hours
	@bash scripts/soak.sh

sim: ## the simulations with large counts, about a quarter of an hour: a million random steps on lanes, then storms of kills
	@SCALE=full ONLY='^Test(LaneStorm|Storm|R02|R12|R17|R18|Subagent)' SOAK_FLAGS=-v bash scripts/soak.sh ./engine/local ./internal/linearizability ./internal/sim

security: ## the attacks on files, secrets, the way out, the web UI and the sandbox with the full numbers; a few minutes
	@bash scripts/security.sh

reliability: ## runs every attack that counts its trials, for hours, and writes RELIABILITY.md; SCALE=quick takes half an hour
	go run ./bench/reliability -scale $${SCALE:-full} -seed $${SEED:-1}

museum: ## puts each bug of testdata/bugs back and wants a test to find it: how good the tests are, in about ten minutes
	@bash scripts/museum.sh

lint: ## gofmt, go vet, golangci-lint, and what the Go API and the HTTP API changed since the last release
	@echo "lint: gofmt"
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	@echo "lint: go vet"
	@go vet ./...
	@echo "lint: golangci-lint (the first run builds it, about a minute)"
	@go tool -modfile=tools/go.mod golangci-lint run
	@bash scripts/compat.sh

cover: ## coverage by package, and as a page: coverage.html
	go test -coverprofile=coverage.out ./...
	go tool cover -html=coverage.out -o coverage.html

bench: ## measures Perdure beside plain SQLite, and beside plain Postgres where its server is: a table, and bench.json; docs/how-to/read-the-figures.md explains it
	CGO_ENABLED=0 go run ./bench
	CGO_ENABLED=0 go run ./bench/schedules
	CGO_ENABLED=0 go run ./bench/borders
	CGO_ENABLED=0 go run ./bench/bulk
	CGO_ENABLED=0 go run ./bench/start
	CGO_ENABLED=0 go run ./bench/watch

conformance: ## the MCP suites against our server and our client, the inspector's CLI, and two servers of others behind the proxy; installs what it needs of Node
	@bash scripts/conformance.sh

contact: ## Perdure with programs of other authors: two clients of providers, a mock of providers, MCP servers, a browser; installs what it needs of Node, and Chromium
	@bash scripts/contact.sh

temporal: ## the scheduler on Temporal, with a real server that it kills, pauses and wipes; the first run builds the server, 4 to 15 minutes
	@bash scripts/temporal.sh

temporal-workflows: ## the workflows of the scheduler on Temporal in virtual time, and recorded histories; needs no server
	@bash scripts/temporal.sh workflows

ui: ## builds the web UI into internal/ui/dist; installs what it needs of Node
	@bash scripts/ui-build.sh

ui-test: ## the web UI in a real browser; installs what it needs of Node, and Chromium
	@bash scripts/ui-test.sh

load: ## 1,000 clients on one server of which 200 do not keep up, ten times what it can do, gigabytes of output, hostile sockets: what the others notice
	CGO_ENABLED=0 go run ./bench/load

generate: ## writes again whatever is generated; a clean tree afterwards proves that nothing was stale
	go generate ./...

release-snapshot: ## builds the files of a release into dist, from this checkout, and publishes nothing: archives, deb, rpm, apk, checksums
	@bash scripts/release.sh
