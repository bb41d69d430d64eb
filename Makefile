# agentq: one word per thing a person wants to do. Each recipe is a short script in scripts/.
# Everything private (server, data, logs) lives in $AGENTQ_HOME, by default ./.private.

.DEFAULT_GOAL := help
.PHONY: help run stop psql test lint all install installcheck package package-test release-check bench torture soak ha-demo

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build agentq, start a private PostgreSQL with it, play the demo and leave the server up (AGENTQ_PORT chooses the port).
	@scripts/bootstrap
	@scripts/build
	@scripts/server start
	@scripts/demo
	@scripts/server hint

stop: ## Stop the private PostgreSQL that `make run` left up.
	@scripts/server stop

psql: ## Open psql on the demo database of the private PostgreSQL.
	@scripts/server psql

test: ## Run every test, on private clusters of their own, and print the totals.
	@scripts/bootstrap --test
	@scripts/build
	@scripts/test

lint: ## Check formatting, clippy with warnings as errors, and the shell scripts.
	@scripts/bootstrap
	@scripts/prefix
	@scripts/lint

all: ## Build agentq for the PostgreSQL 15 to 18 that PG_CONFIG names (default: pg_config on the PATH).
	@scripts/bootstrap
	@scripts/build

install: ## Build agentq and install it into that PostgreSQL; after `make all` also with sudo.
	@scripts/install

installcheck: ## After `make install`, run the regression tests against the server that PGHOST, PGPORT and PGUSER name.
	@scripts/installcheck

package: ## Make a package for Debian, a tarball and the PGXN distribution in target/package (PG=15 to 18).
	@scripts/bootstrap --package
	@scripts/build
	@scripts/package

package-test: package ## Install each of these in a clean place, and upgrade, check and remove it there (as root).
	@scripts/bootstrap --package-test
	@scripts/package-test

release-check: ## Say what stands in the way of a release: versions, majors and documents that disagree.
	@scripts/release-check

torture: ## Kill, crash, fill, cancel and upgrade under load for ten minutes, and count what was lost (MINUTES=n).
	@scripts/bootstrap
	@scripts/build
	@scripts/torture

ha-demo: ## Show a failover with Patroni and etcd: kill -9 of the leader under load, and what becomes of the work.
	@scripts/bootstrap --test
	@scripts/build
	@scripts/ha-demo

soak: ## Let an hour's worth of jobs pass in minutes, and see that memory, files, tables and dead rows stay flat.
	@scripts/bootstrap
	@scripts/build
	@scripts/torture soak

bench: ## Run the benchmark on a private cluster (QUICK=1 for a short one, PEERS=1 with other people's queues).
	@scripts/bootstrap
	@scripts/build
	@scripts/bench
